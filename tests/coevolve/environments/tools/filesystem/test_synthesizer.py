import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from coevolve.delivery.engine import VerifiedEngine
from coevolve.engine.generator import TransformersGenerator
from coevolve.environments.tools.commands import Passed
from coevolve.environments.tools.filesystem.grammar import exploration_start, paraphrases
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.skills import SKILLS
from coevolve.environments.tools.filesystem.synthesizer import PolicySynthesizer
from coevolve.environments.tools.filesystem.tokenizer import CHECKPOINT
from coevolve.environments.tools.session import Session
from coevolve.environments.tools.synthesis.brief import ToolContext
from coevolve.environments.tools.task import ToolTurn, read_body
from coevolve.journal.codec import decode_as, encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from protocols.config import RunConfig
from protocols.evolution import CallFailed, ModelCall, OnPattern
from protocols.interfaces import CallLog, Generator, Synthesizer
from protocols.journal import Append, Receipt
from protocols.learning import PolicyVersion, WeightsVerified
from protocols.synthesis import Anything, Brief, Synthesis
from protocols.synthesizers import PolicyModel
from protocols.tasks import body_of
from tests.contexts import context_of
from tests.fakes import ScriptGenerator
from tests.simulated import InProcessSimulator


class Log:
    """A `protocols.interfaces.CallLog` in memory."""

    def __init__(self) -> None:
        self.calls: dict[int, ModelCall] = {}

    async def recorded(self, ordinal: int) -> ModelCall | None:
        return self.calls.get(ordinal)

    async def allow(self, prompt_tokens: int, answer_tokens: int, cost_usd: float) -> None:
        return

    async def note(self, call: ModelCall) -> None:
        assert call.ordinal not in self.calls
        self.calls[call.ordinal] = call

    async def failed(self, call: CallFailed) -> None:
        raise AssertionError(call)


def brief(number: int, about: OnPattern | Anything) -> Brief:
    return Brief(
        signal_id=f"signal-{number}",
        kind="rare",
        about=about,
        attempts=(),
        context=body_of(
            ToolContext(starts=tuple(exploration_start(5, 4 * number + each) for each in range(4)))
        ),
        steps=12,
        seed=number,
        policy_version=7,
    )


def bigram(pattern: str) -> OnPattern:
    return OnPattern(kind="tool_bigram", pattern=pattern)


def engine(generator: Generator, store: LocalStore) -> VerifiedEngine:
    context = context_of(RunConfig(name="test"), store, folder=CHECKPOINT)
    return VerifiedEngine(context, "synthesizer", generator)


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[PolicySynthesizer]:
    generator = TransformersGenerator(CHECKPOINT, CHECKPOINT, max_concurrent=128, max_length=256)
    store = LocalStore(Journal.open(folder))
    synthesizer = PolicySynthesizer(
        PolicyModel(),
        engine=engine(generator, store),
        simulator=InProcessSimulator(),
        renderer=TinyRenderer.load(CHECKPOINT),
        reader=store,
    )
    try:
        yield synthesizer
    finally:
        await synthesizer.close()


async def synthesized(
    folder: Path, briefs: Sequence[Brief], logs: Sequence[CallLog]
) -> list[Synthesis]:
    async with opened(folder) as synthesizer:
        as_interface: Synthesizer = synthesizer
        await as_interface.check()
        return await asyncio.gather(
            *(as_interface.synthesize(each, log) for each, log in zip(briefs, logs, strict=True))
        )


def is_said_right(turn: ToolTurn) -> bool:
    return any(turn.instruction in paraphrases(skill, turn.reference) for skill in SKILLS)


def test_candidates_are_what_the_signal_asks_for_and_hold_in_a_fresh_world(tmp_path: Path) -> None:
    wanted = ("mkdir > mv", "find > cd", "touch > echo", "cd > cat", "cat > echo")
    briefs = [brief(number, bigram(pattern)) for number, pattern in enumerate(wanted)]
    briefs += [brief(number, Anything()) for number in range(5, 8)]
    made = asyncio.run(synthesized(tmp_path, briefs, [Log() for _ in briefs]))
    turns: list[ToolTurn] = []
    for asked, synthesis in zip(briefs, made, strict=True):
        assert len(synthesis.explorations) == 4
        assert all(
            len(each.steps) <= 12 and not any(step.failed for step in each.steps)
            for each in synthesis.explorations
        )
        tried = sum(
            len(turn.reference)
            for each in synthesis.candidates
            for turn in read_body(each.body).turns
        )
        assert tried <= synthesis.simulator_calls
        assert synthesis.simulator_calls <= sum(len(each.steps) for each in synthesis.explorations)
        known = {each.exploration_id: each for each in synthesis.explorations}
        assert len({each.candidate_id for each in synthesis.candidates}) == len(
            synthesis.candidates
        )
        for candidate in synthesis.candidates:
            assert candidate.synthesizer == "policy@0"
            assert candidate.policy_version == 7
            assert candidate.signal_id == asked.signal_id
            assert known[candidate.exploration_id].start.startswith("grammar:world:")
            assert 1 <= len(read_body(candidate.body).turns) <= 3
            assert read_body(candidate.body).checks_directory
            session = Session(read_body(candidate.body))
            for turn in read_body(candidate.body).turns:
                assert tuple(session.act(call).result for call in turn.reference) == turn.results
                assert session.grade() == Passed()
            if isinstance(asked.about, OnPattern):
                called = [call.partition("(")[0] for each in read_body(candidate.body).turns
                          for call in each.reference]  # fmt: skip
                first, second = asked.about.pattern.split(" > ")
                assert second in called[called.index(first) :]
            turns += read_body(candidate.body).turns
    assert len(turns) > 30
    assert sum(map(is_said_right, turns)) >= 0.9 * len(turns)
    assert any(len(turn.reference) > 1 for turn in turns)


def test_with_the_call_recorded_the_same_comes_out_and_no_model_is_asked(tmp_path: Path) -> None:
    asked, log = brief(0, bigram("mkdir > mv")), Log()
    (first,) = asyncio.run(synthesized(tmp_path / "one", [asked], [log]))
    assert first.candidates
    (call,) = log.calls.values()
    assert (call.ordinal, call.purpose, call.model) == (0, "abstract", "policy@0")
    assert call.cost_usd == 0
    assert call.answer_tokens > 0
    store = LocalStore(Journal.open(tmp_path / "two"))
    silent = PolicySynthesizer(
        PolicyModel(),
        engine=engine(ScriptGenerator([]), store),
        simulator=InProcessSimulator(),
        renderer=TinyRenderer.load(CHECKPOINT),
        reader=store,
    )
    assert asyncio.run(silent.synthesize(asked, log)) == first


def test_the_newest_weights_are_served_where_asked_for(tmp_path: Path) -> None:
    store = LocalStore(Journal.open(tmp_path))
    generator = ScriptGenerator([])

    def synthesizer(model: PolicyModel) -> PolicySynthesizer:
        return PolicySynthesizer(
            model,
            engine=engine(generator, store),
            simulator=InProcessSimulator(),
            renderer=TinyRenderer.load(CHECKPOINT),
            reader=store,
        )

    async def follow() -> None:
        start, newest = synthesizer(PolicyModel()), synthesizer(PolicyModel(weights="newest"))
        await newest.check()
        assert newest.name == "policy@0"
        version = PolicyVersion(
            version=3, path="v_3", format="full", digest="", size_bytes=0, kept=False
        )
        await store.append(
            Append(records=(encode(version),), receipt=Receipt(producer="test", counter=1))
        )
        await start.check()
        assert (start.name, generator.version) == ("policy@0", 0)
        nothing = msgspec.structs.replace(
            brief(0, Anything()), context=body_of(ToolContext(starts=()))
        )
        assert not (await newest.synthesize(nothing, Log())).candidates
        assert (newest.name, generator.version) == ("policy@3", 3)
        proven = await store.last("weights_verified")
        assert proven is not None
        assert decode_as(proven, WeightsVerified).engine == "synthesizer"

    asyncio.run(follow())
