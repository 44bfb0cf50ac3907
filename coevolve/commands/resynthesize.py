"""Synthesizes a run's tasks again from recorded model calls, and compares the results.

For every answered signal, this module writes the brief again from the journal and replays the
recorded calls of the synthesizer's model. Real simulators execute the tool calls. The resulting
candidates are compared with the journal's. No endpoint is called, and nothing is written.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self, cast

import msgspec

from coevolve.environments.registry import environment_of
from coevolve.environments.tools import evolution
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.journal.codec import CANDIDATES_BY_SIGNAL, SIGNALS_BY_ID, decode_as
from coevolve.journal.paging import whole_topic
from coevolve.journal.reader import run_reader
from coevolve.launcher.preflight import install
from coevolve.llm.recorded_calls import RecordedCalls, recorded_calls, without_version
from coevolve.parts.files import LocalFiles
from coevolve.runs.costs import Costs, costs_snapshots
from coevolve.runs.directory import RunDirectory
from coevolve.synthesis.arms import ArmBriefs
from coevolve.synthesis.briefs import BriefContext
from coevolve.synthesis.serving import OpenModel
from protocols.config import RunConfig
from protocols.errors import (
    AnswerError,
    EndpointError,
    GeneratorError,
    JournalError,
    RunError,
    SimulatorError,
)
from protocols.evolution import Candidate, Signal, SignalSettled, SynthesizerSwapped
from protocols.interfaces import Reader, Synthesizer
from protocols.journal import Message
from protocols.synthesizers import SynthesizerModel

MOST_CANDIDATES = 100_000
"""Maximum number of candidates read for one signal; far above any real number."""

SHOWN_CHARS = 80
"""Maximum characters of a value in a difference."""


class Resynthesized(msgspec.Struct, frozen=True, kw_only=True):
    """Result of synthesizing for one signal again."""

    signal_id: str
    synthesizer: str
    candidates: int
    """Number of candidates in the journal."""

    difference: str
    """The first difference, or the error; empty if all candidates are equal."""

    evicted: int
    """Rollouts that the brief lacks because the journal no longer holds them."""


async def resynthesize(
    config: RunConfig, *, reader: Reader, context: BriefContext, open_model: OpenModel
) -> AsyncIterator[Resynthesized]:
    """Yield the result for every answered signal, in the order of the answers.

    Raises RunError if a model that the run never had answered a signal.
    """
    briefs = ArmBriefs(config, reader=reader, context=context)
    async with _Models(config.synthesizer.model, open_model, reader) as models:
        async for record in whole_topic(reader, "signal_settled"):
            settled = decode_as(record, SignalSettled)
            if settled.outcome in ("synthesized", "nothing_found"):
                calls = await recorded_calls(
                    reader, settled.signal_id, settled.synthesizer, before=record.sequence
                )
                synthesizer = await models.named(settled.synthesizer)
                yield await _again(
                    settled, synthesizer, RecordedCalls(calls.values()), briefs, reader
                )


async def _again(
    settled: SignalSettled,
    synthesizer: Synthesizer,
    calls: RecordedCalls,
    briefs: ArmBriefs,
    reader: Reader,
) -> Resynthesized:
    (found,) = await reader.find(SIGNALS_BY_ID, settled.signal_id, limit=1)
    signal = decode_as(found, Signal)
    brief = await briefs.brief(signal, found.sequence)
    shown = (await briefs.subject(signal, found.sequence)).evidence
    recorded = [
        decode_as(each, Candidate)
        for each in await reader.find(CANDIDATES_BY_SIGNAL, settled.signal_id, MOST_CANDIDATES)
    ]
    try:
        synthesis = await briefs.practising(brief, await synthesizer.synthesize(brief, calls))
        difference = first_difference(recorded, synthesis.candidates)
    except (EndpointError, AnswerError, GeneratorError, SimulatorError) as error:
        difference = str(error)
    return Resynthesized(
        signal_id=settled.signal_id,
        synthesizer=settled.synthesizer,
        candidates=len(recorded),
        difference=difference,
        evicted=len(shown) - len(brief.attempts),
    )


class _Models:
    """The synthesizers of a run, by the names that their candidates carry; each is opened once."""

    def __init__(self, configured: SynthesizerModel, open_model: OpenModel, reader: Reader) -> None:
        self._configured = configured
        self._open_model = open_model
        self._reader = reader
        self._opened: list[tuple[str, Synthesizer]] = []
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the run's models."""
        self._open(self._configured, "")
        async for record in whole_topic(self._reader, "synthesizer_swapped"):
            swapped = decode_as(record, SynthesizerSwapped)
            self._open(swapped.model, swapped.synthesizer)
        return self

    async def __aexit__(self, *failure: object) -> None:
        """Close them."""
        await self._closing.aclose()

    async def named(self, name: str) -> Synthesizer:
        """Return the newest synthesizer of this name, or else of this name in another version.

        Raises RunError if there is none.
        """
        for alike in (str, without_version):
            for known, synthesizer in reversed(self._opened):
                if alike(known) == alike(name):
                    return synthesizer
        raise RunError(
            f"a signal was answered by {name!r}, and the run's models are "
            f"{', '.join(known for known, _ in self._opened)}; config.yaml or the journal is "
            "another run's"
        )

    def _open(self, model: SynthesizerModel, name: str) -> None:
        synthesizer = self._open_model(model)
        self._closing.push_async_callback(synthesizer.close)
        self._opened.append((name or synthesizer.name, synthesizer))


def first_difference(recorded: Sequence[Candidate], made: Sequence[Candidate]) -> str:
    """Return the first difference of the candidates as text; empty if they are equal."""
    before, now = (
        msgspec.msgpack.decode(msgspec.msgpack.encode(each)) for each in (recorded, made)
    )
    return next(_differences(before, now, "candidates"), "")


def _differences(before: object, now: object, path: str) -> Iterator[str]:
    if before == now:
        return
    match before, now:
        case dict(), dict():
            old, new = cast("dict[str, object]", before), cast("dict[str, object]", now)
            for name in old | new:
                yield from _differences(old.get(name), new.get(name), f"{path}.{name}")
        case list(), list():
            olds, news = cast("list[object]", before), cast("list[object]", now)
            for position, (one, other) in enumerate(zip(olds, news, strict=False)):
                yield from _differences(one, other, f"{path}[{position}]")
            if len(olds) != len(news):
                yield f"{path}: {len(olds)} recorded, {len(news)} made"
        case _:
            yield f"{path}: {_shown(before)} recorded, {_shown(now)} made"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def _tool_environment(config: RunConfig) -> ToolEnvironment:
    """Return the run's environment. Raises RunError."""
    environment = environment_of(config)
    if not isinstance(environment, ToolEnvironment):
        raise RunError(
            "synthesizing again needs a run whose policy calls tools, found environment "
            f"{config.uses}"
        )
    return environment


def compare(run_dir: Path, *, as_json: bool) -> bool:
    """Print one line per signal, or JSON; return whether all candidates are equal.

    Raises the errors of `resynthesize`, and RunError if ``run_dir`` is no run.
    """
    return asyncio.run(_compare(run_dir, as_json=as_json))


async def _compare(run_dir: Path, *, as_json: bool) -> bool:
    config, reader = RunDirectory(run_dir).config(), run_reader(run_dir)
    install(config)
    environment = _tool_environment(config)
    simulator, questions = environment.simulator(), environment.questions()

    async def refuse(messages: Sequence[Message]) -> tuple[int, ...]:
        raise JournalError(f"{run_dir}: is only read; {len(messages)} records were to be added")

    def open_model(model: SynthesizerModel) -> Synthesizer:
        return evolution.synthesizer_model(
            config, LocalFiles(run_dir), reader, refuse, (simulator,), questions, model
        )

    signals: list[Resynthesized] = []
    try:
        async for signal in resynthesize(
            config, reader=reader, context=environment.brief_context(), open_model=open_model
        ):
            signals.append(signal)
            if not as_json:
                sys.stdout.write(f"{line(signal)}\n")
    finally:
        await simulator.close()
    if not signals:
        raise RunError(f"{run_dir}: has no signal that was answered, so nothing to make again")
    equal = sum(not signal.difference for signal in signals)
    if as_json:
        report = {"signals": len(signals), "equal": equal, "answered": msgspec.to_builtins(signals)}
        sys.stdout.write(f"{json.dumps(report)}\n")
    else:
        sys.stdout.write(f"{equal} of {len(signals)} signals led to their recorded candidates\n")
        sys.stdout.write(readings(await _used(reader)))
    return equal == len(signals)


async def _used(reader: Reader) -> Costs:
    """Return what the run's calls of models used."""
    costs, _ = await costs_snapshots(reader).folded()
    return costs


def readings(costs: Costs) -> str:
    """Return what the calls cost that are not repeated, as a line of text; empty without any."""
    read = costs.reading
    if not read.calls:
        return ""
    return (
        f"not repeated: {read.calls} calls that read instructions, with {read.tokens} tokens, "
        f"for {read.cost_usd:.4f} USD\n"
    )


def line(signal: Resynthesized) -> str:
    """Return the result for one signal as a line of text."""
    if not signal.difference:
        return f"{signal.signal_id}: equal, {signal.candidates} candidates of {signal.synthesizer}"
    gone = f" ({signal.evicted} rollouts are gone from the journal)" if signal.evicted else ""
    return f"{signal.signal_id}: DIFFERS, {signal.difference}{gone}"
