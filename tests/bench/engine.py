"""Measures rollouts with vLLM's asyncio front beside `LLM.generate`, and delivery of weights.

*Rollouts*: conversations of several turns, in groups that share an opening; each turn is a
generation and some tokens of the environment. The front plays them concurrently, each at its own
pace. Its peer is vLLM's own offline loop with an engine of the same settings, on the same prompts
and lengths, all conversations turn by turn. Both are measured alternately, in one process and one
run; the ratio is the median of the rounds' ratios. Only sampled tokens count.

*Delivery*: slightly changed full weights, delivered while all conversations sample. Latency is the
time from the order to serve a version to the end of its probe; the longest stall is that of the
requests in flight, as in `protocols.learning.ServedWeights`.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import torch
from rich.table import Table

from coevolve.delivery.probe import PROBE_TOKENS
from coevolve.engine.vllm import environment
from coevolve.models.load import read_model
from coevolve.models.model_folder import TINY, model_folder
from coevolve.models.weight_files import WEIGHTS_FILES, version_digest
from protocols import columns
from protocols.config import VllmEngine
from protocols.generation import GenerationRequest
from protocols.learning import PolicyVersion, Probe
from tests.bench import output, raw_vllm
from tests.bench.raw_vllm import Offline, Sampled

if TYPE_CHECKING:
    from coevolve.engine.vllm.generator import VllmGenerator

GROUP = 8
SHARED_TOKENS = 40
OPENING_TOKENS = 60
OBSERVED_TOKENS = 12
CHANGE = 1e-3
"""Difference of a delivered version, in standard deviations of a weight."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    measure: str
    value: float
    unit: str
    peer: float | None = None
    """The same value with `LLM.generate`."""

    ratio: float | None = None
    """Median over the rounds."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """The conversations to generate."""

    vocabulary: int
    conversations: int
    turns: int
    tokens: int
    """Tokens per turn."""

    @property
    def length(self) -> int:
        """Tokens of a whole conversation."""
        return OPENING_TOKENS + self.turns * (self.tokens + OBSERVED_TOKENS)

    @property
    def sampled(self) -> int:
        """Tokens that all conversations sample."""
        return self.conversations * self.turns * self.tokens

    def opening(self, conversation: int, round_: int) -> list[int]:
        """Return the first prompt: equal within a group, different in each round."""
        group = conversation // GROUP
        shared = self._words(SHARED_TOKENS, round_)
        return shared + self._words(OPENING_TOKENS - SHARED_TOKENS, round_, group)

    def observed(self, conversation: int, turn: int) -> list[int]:
        """Return the environment's tokens after a turn."""
        return self._words(OBSERVED_TOKENS, conversation, turn, 0)

    def _words(self, count: int, *seed: int) -> list[int]:
        return np.random.default_rng(seed).integers(self.vocabulary, size=count).tolist()


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("engine", __doc__)
    parser.add_argument("--model", default=TINY, help="tiny, or a folder in Hugging Face layout")
    parser.add_argument("--rounds", type=int, default=5, help="repetitions of each comparison")
    parser.add_argument("--conversations", type=int, default=64, help="at a time")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=32, help="sampled per turn")
    parser.add_argument("--deliveries", type=int, default=20, help="versions to deliver")
    parser.add_argument("--dtype", default="float32", help="of vLLM's weights")
    options = parser.parse_args(arguments)
    settings = msgspec.convert({"dtype": options.dtype}, VllmEngine)
    environment.set_variables(settings)
    rows = asyncio.run(measured(model_folder(options.model), settings, options))
    output.show(rows, _table, as_json=options.json, width=110)


async def measured(folder: Path, settings: VllmEngine, options: Any) -> list[Row]:
    """Return all rows, from one engine and its peer."""
    from coevolve.engine.vllm.arguments import Limits
    from coevolve.engine.vllm.generator import VllmGenerator

    model = read_model(folder)
    load = Load(
        vocabulary=model.config.vocab_size,
        conversations=options.conversations,
        turns=options.turns,
        tokens=options.tokens,
    )
    limits = Limits(concurrent=load.conversations, length=load.length)
    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        front = VllmGenerator(folder, Path(place), settings, limits)
        start_s = time.perf_counter() - started
        peer = offline(folder, settings, load)
        rows = await _rollouts(front, peer, load, options.rounds)
        rows += await _deliveries(front, model, Path(place), load, options.deliveries)
        await front.close()
    return [*rows, Row(measure="start of an engine, self-test included", value=start_s, unit="s")]


async def _rollouts(
    front: "VllmGenerator", peer: Callable[[int], None], load: Load, rounds: int
) -> list[Row]:
    pairs: list[tuple[float, float]] = []
    for round_ in range(rounds + 1):
        began = time.perf_counter()
        await play(front, load, round_)
        front_s = time.perf_counter() - began
        began = time.perf_counter()
        peer(round_)
        pairs.append((load.sampled / front_s, load.sampled / (time.perf_counter() - began)))
    warm = pairs[1:]
    return [
        Row(
            measure=f"rollouts, {load.conversations} x {load.turns} turns x {load.tokens} tokens",
            value=median(ours for ours, _ in warm),
            unit="tokens/s",
            peer=median(theirs for _, theirs in warm),
            ratio=median(ours / theirs for ours, theirs in warm),
        )
    ]


async def play(front: "VllmGenerator", load: Load, round_: int) -> None:
    """Play all conversations concurrently."""

    async def converse(number: int) -> None:
        ids = load.opening(number, round_)
        for turn in range(load.turns):
            said = await front.generate(
                GenerationRequest(
                    conversation_id=str(number),
                    prompt_ids=tuple(ids),
                    max_tokens=load.tokens,
                    stop_ids=(),
                    temperature=1.0,
                    seed=number,
                )
            )
            ids += [*said.token_ids, *load.observed(number, turn)]

    await asyncio.gather(*map(converse, range(load.conversations)))


def offline(folder: Path, settings: VllmEngine, load: Load) -> Callable[[int], None]:
    """Return a function that plays a round with vLLM's own loop, all conversations turn by turn."""
    llm = raw_vllm.engine(
        Offline(
            folder=str(folder),
            settings=settings,
            concurrent=load.conversations,
            length=load.length,
        )
    )

    def play_offline(round_: int) -> None:
        prompts = [load.opening(number, round_) for number in range(load.conversations)]
        for turn in range(load.turns):
            wave = [
                Sampled(prompt_ids=tuple(ids), tokens=load.tokens, temperature=1.0, seed=number)
                for number, ids in enumerate(prompts)
            ]
            answers = raw_vllm.generate(llm, wave)
            for number, (ids, said) in enumerate(zip(prompts, answers, strict=True)):
                ids += [*said, *load.observed(number, turn)]

    return play_offline


async def _deliveries(
    front: "VllmGenerator", model: Any, run_dir: Path, load: Load, count: int
) -> list[Row]:
    latencies: list[float] = []
    stalls: list[float] = []
    busy = asyncio.Event()

    async def keep_sampling() -> None:
        round_ = 1000
        while not busy.is_set():
            await play(front, load, round_)
            round_ += 1

    sampling = asyncio.create_task(keep_sampling())
    for number in range(1, count + 1):
        version = await asyncio.to_thread(_changed, model, run_dir, number, load.vocabulary)
        served = await front.load(version)
        latencies.append(1e3 * served.wall_s)
        stalls.append(1e3 * served.pause_s)
    busy.set()
    await sampling
    return [
        *_latencies("delivery, order to proven", latencies),
        *_latencies("stall of requests in flight", stalls),
    ]


def _changed(model: Any, run_dir: Path, number: int, vocabulary: int) -> PolicyVersion:
    """Write a version that differs slightly from the one before."""
    generator = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter += CHANGE * noise * parameter.std().nan_to_num()
    model.save_pretrained(run_dir / str(number))
    return PolicyVersion(
        version=number,
        path=str(number),
        format="full",
        digest=version_digest(run_dir / str(number), "full"),
        size_bytes=(run_dir / str(number) / WEIGHTS_FILES["full"]).stat().st_size,
        kept=False,
        probe=Probe(
            token_ids=columns.int32(number % vocabulary for number in range(PROBE_TOKENS)),
            logprobs=columns.float32([0.0] * (PROBE_TOKENS - 1)),
        ),
    )


def _latencies(measure: str, milliseconds: Sequence[float]) -> list[Row]:
    return [
        Row(measure=f"{measure}, p50", value=median(milliseconds), unit="ms"),
        Row(measure=f"{measure}, longest", value=max(milliseconds), unit="ms"),
    ]


def _table(rows: Sequence[Row]) -> Table:
    cells = [
        (
            row.measure,
            output.number(row.value),
            output.number(row.peer),
            row.unit,
            f"{row.ratio:.2f}" if row.ratio is not None else "",
        )
        for row in rows
    ]
    headings = ("measure", "here", "LLM.generate", "unit", "ratio")
    return output.table("vLLM in process", headings, cells)
