"""A part of the benchmark on a GPU: the quickstart, engine and learner on one GPU."""

import coevolve
from coevolve.journal.codec import decode_as
from coevolve.journal.reader import STORE_FOLDER, JournalReader
from protocols.learning import WeightsVerified
from tests.bench.gpu_models import Bench
from tests.bench.gpu_outcome import Outcome, proof

STEPS = 3

SHARES = (
    "policy.device=cuda",
    "learner.gpus=0.4",
    "rollout.engine.gpus=0.3",
    "rollout.engine.gpu_memory_utilization=0.3",
    "rollout.engine.enforce_eager=true",
)
"""How the learner, the engine of rollouts and that of the evaluator share the GPU."""

SMALL = (
    "name=gpu",
    f"learner.steps={STEPS}",
    "learner.groups_per_step=4",
    "rollout.group_size=4",
    "rollout.in_flight_groups=8",
    "environment.held_out=12",
    "arm=static",
)


def loop(bench: Bench) -> Outcome:
    """Train, and look in the journal for the last version's proof."""
    kind = "rollout.engine={kind: vllm, dtype: bfloat16, kv_cache_mb: 64, self_test: false}"
    overrides = [*SMALL, kind, "policy.precision=bf16"]
    overrides += SHARES if bench.on_gpu else ()
    result = coevolve.run("quickstart", overrides=overrides, runs=bench.place / "runs")
    with JournalReader(result.directory / STORE_FOLDER).snapshot() as state:
        found = [decode_as(each, WeightsVerified) for each in state.scan("weights_verified")]
    proven = any(each.version == STEPS for each in found)
    return proof(
        "loop",
        result.steps == STEPS and proven,
        f"quickstart, engine and learner on one {'GPU' if bench.on_gpu else 'CPU'}: "
        f"{result.steps} of {STEPS} steps, the last version {'' if proven else 'not '}proven",
        steps=result.steps,
    )
