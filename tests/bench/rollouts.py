"""Measures rollouts through the whole system beside raw vLLM, on the same prompts and lengths.

*Here*: a local Ray cluster with the store, the simulators and one rollout actor with its engine, as
in a run; version 0 is published as the learner publishes it. No learner and no evaluator run. A
round appends requests to the journal, and ends when the last of their rollouts is read from it.

*Raw*: vLLM's `LLM.generate` in a separate process (`tests.bench.raw_vllm`), with an engine of the
same settings. It repeats every generation of the round with the same prompt, seed, temperature and
number of tokens, whatever the tokens are. All first generations are one call, all second ones the
next, and so on; it never waits for a simulator.

Both are measured alternately, and each is idle meanwhile. The first round warms both up and is left
out. Only sampled tokens count; the ratio is the median of the rounds' ratios. *Engine* CPU is that
of the engine's thread, *rest* that of the rest of the system, including Ray.

A model is the shipped policy with wider layers that do not change its output: conversations stay
the same, and only the engine has more work.
"""

import argparse
import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
from rich.table import Table

from coevolve.config.load import load_config
from coevolve.history.directory import RunDirectory
from coevolve.rollouts.agent import sampling_seed
from coevolve.runs import starting
from protocols import columns
from protocols.config import RunConfig
from protocols.rollouts import Rollout
from tests.bench import output
from tests.bench.raw_vllm import Measured, Offline, Raw, Sampled, raw_vllm
from tests.bench.rollout_system import System, engine_settings, system
from tests.bench.wider import wider_policy

RUN_FILE = Path("configs/quickstart_vllm.yaml")
WIDTHS = (288, 8192)
"""Widths of the layers: the policy's own, and one that gives it 7 million parameters."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round of both."""

    rollouts: int
    generations: int
    tokens: int
    wall_s: float
    engine_cpu_s: float
    simulator_cpu_s: float
    rest_cpu_s: dict[str, float]
    """CPU seconds of the rest, by part; Ray's own processes and this one are two of them."""

    raw: Measured

    @property
    def ratio(self) -> float:
        """Tokens per second of the system over those of raw vLLM."""
        return self.tokens / self.wall_s / (self.raw.tokens / self.raw.wall_s)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table: a model; medians over its rounds."""

    parameters: int
    tokens_per_s: float
    raw_tokens_per_s: float
    ratio: float
    load: float
    """Load average of the last minute, after the last round."""

    rounds: list[Round]


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("rollouts", __doc__)
    parser.add_argument("--run-file", type=Path, default=RUN_FILE)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS, help="of the layers")
    parser.add_argument("--rollouts", type=int, default=1200, help="of a round, in whole groups")
    parser.add_argument("--rounds", type=int, default=3, help="that are measured")
    parser.add_argument("--set", nargs="*", default=(), metavar="key=value", dest="overrides")
    options = parser.parse_args(arguments)
    rows = [_of_width(width, options) for width in options.widths]
    output.show(rows, _table, as_json=options.json, width=110)


def _of_width(width: int, options: argparse.Namespace) -> Figures:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        parameters = wider_policy(folder, width)
        config = load_config(
            options.run_file,
            [*options.overrides, "name=bench", "arm=uniform", f"policy.model={folder}"],
        )
        directory = starting.create(Path(place) / "run", config)
        rounds = asyncio.run(measured(config, directory, options.rollouts, options.rounds))
    return Figures(
        parameters=parameters,
        tokens_per_s=median(each.tokens / each.wall_s for each in rounds),
        raw_tokens_per_s=median(each.raw.tokens / each.raw.wall_s for each in rounds),
        ratio=median(each.ratio for each in rounds),
        load=os.getloadavg()[0],
        rounds=rounds,
    )


async def measured(
    config: RunConfig, directory: RunDirectory, rollouts: int, rounds: int
) -> list[Round]:
    """Return the rounds after the first."""
    groups = -(-rollouts // config.rollout.group_size)
    offline = Offline(
        folder=config.policy.model,
        settings=engine_settings(config),
        concurrent=config.rollout.concurrent,
        length=config.rollout.max_tokens,
    )
    with raw_vllm(offline) as raw, system(config, directory) as played:
        await played.publish()
        found = [await _round(played, raw, groups) for _ in range(rounds + 1)]
        await played.stop()
    return found[1:]


async def _round(played: System, raw: Raw, groups: int) -> Round:
    before, began = await played.cpu(), time.perf_counter()
    rollouts = await played.play(groups)
    wall_s = time.perf_counter() - began
    shares = before.until(await played.cpu())
    waves = waves_of(rollouts, played.config.rollout.temperature)
    return Round(
        rollouts=len(rollouts),
        generations=sum(map(len, waves)),
        tokens=sum(rollout.tokens.mask.count(1) for rollout in rollouts),
        wall_s=wall_s,
        engine_cpu_s=shares.model_s,
        simulator_cpu_s=shares.simulator_s,
        rest_cpu_s=dict(shares.rest_s),
        raw=await asyncio.to_thread(raw.play, waves),
    )


def waves_of(rollouts: Sequence[Rollout], temperature: float) -> list[list[Sampled]]:
    """Return all first generations, all second ones, and so on; a group's are adjacent."""
    ordered = sorted(rollouts, key=lambda rollout: (rollout.group, rollout.index))
    by_rollout = [list(_generations(rollout, temperature)) for rollout in ordered]
    return [
        [each for each in wave if each is not None] for wave in itertools.zip_longest(*by_rollout)
    ]


def _generations(rollout: Rollout, temperature: float) -> Iterator[Sampled]:
    """Yield the engine's requests; its answers are the contiguous sampled tokens."""
    token_ids = columns.from_int32(rollout.tokens.token_ids)
    mask = np.frombuffer(b"\0" + rollout.tokens.mask + b"\0", dtype=np.uint8)
    for start, end in np.flatnonzero(np.diff(mask)).reshape(-1, 2).tolist():
        yield Sampled(
            prompt_ids=tuple(token_ids[:start]),
            tokens=end - start,
            temperature=temperature,
            seed=sampling_seed(rollout.seed, start),
        )


def _table(rows: Sequence[Figures]) -> Table:
    first = rows[0].rounds[0]
    cpu = ("CPU s: engine", "simulators", "rest", "raw")
    headings = ("parameters", "tokens/s", "raw", "ratio", *cpu, "load")
    cells = [
        (
            f"{row.parameters:,}",
            f"{row.tokens_per_s:,.0f}",
            f"{row.raw_tokens_per_s:,.0f}",
            f"{row.ratio:.2f}",
            f"{median(each.engine_cpu_s for each in row.rounds):.2f}",
            f"{median(each.simulator_cpu_s for each in row.rounds):.2f}",
            f"{median(sum(each.rest_cpu_s.values()) for each in row.rounds):.2f}",
            f"{median(each.raw.cpu_s for each in row.rounds):.2f}",
            f"{row.load:.1f}",
        )
        for row in rows
    ]
    title = f"{first.rollouts} rollouts a round through the whole system, beside LLM.generate"
    return output.table(title, headings, cells, words=0)
