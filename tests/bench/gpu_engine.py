"""A part of the benchmark on a GPU: our vLLM engine beside vLLM's own offline loop.

Each has a process of its own, and the same prompts, lengths and settings; only one computes at a
time. vLLM's loop schedules asynchronously, which is its default; ours does not.
"""

import asyncio
import time
from statistics import median

import numpy as np

from coevolve.engine.vllm import environment
from coevolve.estimate.sizes import BF16
from protocols.generation import GenerationRequest
from protocols.interfaces import Generator
from tests.bench.gpu_models import Bench, assumed, engine_settings, throughput
from tests.bench.gpu_outcome import Outcome
from tests.bench.raw_vllm import Offline, Raw, Sampled, raw_vllm

GOAL = 0.95
ROUNDS = 3


def engine(bench: Bench) -> Outcome:
    """Measure sampled tokens per second of both, round by round."""
    settings = engine_settings(bench)
    environment.set_variables(settings)
    offline = Offline(
        folder=str(bench.model()),
        settings=settings,
        concurrent=_conversations(bench),
        length=sum(_lengths(bench)),
    )
    with raw_vllm(offline) as raw:
        pairs = asyncio.run(_rounds(bench, offline, raw))
    ours, theirs = (median(each) for each in zip(*pairs, strict=True))
    ratio = median(mine / other for mine, other in pairs)
    met = "meets" if ratio >= GOAL else "misses"
    known = throughput(bench)
    return Outcome(
        part="engine",
        verdict="measured",
        said=f"engine {bench.size} in bf16, {_conversations(bench)} at once: {ours:,.0f} tokens/s, "
        f"vLLM alone {theirs:,.0f}, ratio {ratio:.2f} {met} the goal of {GOAL}",
        figures={"tokens_per_s": ours, "vllm_tokens_per_s": theirs, "ratio": ratio},
        throughput=known
        | ({"bandwidth_share": _bandwidth_share(bench, ours)} if "tflops" in known else {}),
    )


async def _rounds(bench: Bench, offline: Offline, raw: Raw) -> list[tuple[float, float]]:
    from coevolve.engine.vllm.core import Limits
    from coevolve.engine.vllm.generator import VllmGenerator

    limits = Limits(concurrent=offline.concurrent, length=offline.length)
    front = VllmGenerator(bench.model(), bench.place, offline.settings, limits)
    pairs: list[tuple[float, float]] = []
    for number in range(ROUNDS + 1):
        wave = _wave(bench, number)
        ours = await _play(front, wave)
        theirs = await asyncio.to_thread(raw.play, [wave])
        pairs.append((ours, theirs.tokens / theirs.wall_s))
    await front.close()
    # The first round compiles and warms up.
    return pairs[1:]


async def _play(front: Generator, wave: list[Sampled]) -> float:
    """Return the tokens per second of our engine."""
    requests = [
        GenerationRequest(
            conversation_id=str(number),
            prompt_ids=each.prompt_ids,
            max_tokens=each.tokens,
            stop_ids=(),
            temperature=each.temperature,
            seed=each.seed,
        )
        for number, each in enumerate(wave)
    ]
    began = time.perf_counter()
    answers = await asyncio.gather(*(front.generate(each) for each in requests))
    return sum(len(each.token_ids) for each in answers) / (time.perf_counter() - began)


def _wave(bench: Bench, round_: int) -> list[Sampled]:
    """Return requests with prompts that no cache has yet."""
    rng = np.random.default_rng(round_)
    prompt, tokens = _lengths(bench)
    return [
        Sampled(
            prompt_ids=tuple(rng.integers(bench.sizes.vocab_size, size=prompt).tolist()),
            tokens=tokens,
            temperature=1.0,
            seed=number,
        )
        for number in range(_conversations(bench))
    ]


def _conversations(bench: Bench) -> int:
    return 128 if bench.on_gpu else 8


def _lengths(bench: Bench) -> tuple[int, int]:
    """Return the tokens of a prompt and of an answer."""
    return (512, 256) if bench.on_gpu else (32, 16)


def _bandwidth_share(bench: Bench, tokens_per_s: float) -> float:
    """Return the share of the memory's peak at which weights, keys and values were read."""
    sizes = bench.sizes
    prompt, tokens = _lengths(bench)
    cache = 2 * sizes.num_hidden_layers * sizes.key_size * BF16
    read = BF16 * sizes.parameters + _conversations(bench) * cache * (prompt + tokens / 2)
    steps_per_s = tokens_per_s / _conversations(bench)
    return min(1.0, read * steps_per_s / (assumed(bench).bandwidth_tb_s * 1e12))
