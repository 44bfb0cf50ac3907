import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.tools.synthesis.context import ToolBriefs
from coevolve.journal.codec import decode_as
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.parts.attempts import KILLED, reason_of
from coevolve.synthesis.worker import SynthesizerWorker
from protocols.config import RunConfig
from protocols.control import DeadLetter, LetterAnswered, LetterRetried, RunContinued, RunPaused
from protocols.errors import (
    AnswerError,
    EndpointError,
    GeneratorError,
    SimulatorError,
)
from protocols.evolution import (
    Candidate,
    Exploration,
    ModelAnswers,
    ModelCall,
    ModelRests,
    SignalSettled,
    SwapRefused,
    SwapRequested,
    SynthesizerSwapped,
)
from protocols.interfaces import Store
from protocols.journal import Message
from protocols.synthesis import Brief
from protocols.tasks import Task
from tests.contexts import context_of
from tests.scripted import (
    CALLS,
    CONFIG,
    TOKENS,
    MortalStore,
    NumberedSource,
    Stage,
    add,
    endpoint,
    everything,
    settled,
    signal,
    task,
    told,
    until,
    version,
)

pytestmark = pytest.mark.usefixtures("short_waits")

PAUSE_S = 0.05


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    journal = Journal.open(tmp_path / "store")
    store = LocalStore(journal)
    await add(store, task("t"), version(0))
    yield store
    journal.close()


def config(**changes: object) -> RunConfig:
    synthesizer = msgspec.structs.replace(CONFIG.synthesizer, **changes)
    return msgspec.structs.replace(CONFIG, synthesizer=synthesizer)


def worker(
    store: Store, reader: LocalStore, stage: Stage, run_config: RunConfig = CONFIG
) -> SynthesizerWorker:
    return SynthesizerWorker(
        context_of(run_config, store, "synthesizer", reader=reader),
        open_model=stage.open_model,
        told=told(run_config),
        first_pause_s=PAUSE_S,
    )


@asynccontextmanager
async def working(
    store: LocalStore, stage: Stage, run_config: RunConfig = CONFIG
) -> AsyncGenerator[SynthesizerWorker]:
    """Run a worker that is stopped at the end, and must stop."""
    part = worker(store, store, stage, run_config)
    running = asyncio.create_task(part.run())
    try:
        yield part
    finally:
        await part.stop()
        await asyncio.wait_for(running, 10.0)


async def killed(running: "asyncio.Task[None]") -> None:
    running.cancel()
    await asyncio.wait([running])


def swap(request_id: str, model: str) -> SwapRequested:
    return SwapRequested(request_id=request_id, model=endpoint(model))


async def appeared(store: LocalStore, topic: str, count: int = 1) -> None:
    seen = 0
    async with asyncio.timeout(10.0):
        while len(await store.scan(topic)) < count:
            seen = await store.wait((topic,), seen, 10.0)


async def test_a_signal_is_settled_together_with_what_came_of_it(store: LocalStore):
    await add(store, signal("s", version=3))
    async with working(store, Stage()):
        outcome = (await settled(store, 1))["s"]
    assert (outcome.outcome, outcome.candidates, outcome.simulator_calls) == ("synthesized", 1, 7)
    assert (outcome.kind, outcome.synthesizer, outcome.reason) == ("forgetting", "policy@0", "")
    (candidate,) = await everything(store, "candidate", Candidate)
    assert candidate.policy_version == 3
    topics = ("exploration", "candidate", "signal_settled")
    sequences = [(await store.scan(topic))[0].sequence for topic in topics]
    assert sequences == list(range(sequences[0], sequences[0] + 3))


async def test_each_signal_is_settled_exactly_once_despite_kills(tmp_path: Path):
    writes = 2 * (CALLS + 1)
    for dies_at in range(1, writes + 1):
        for keeps in (False, True):
            folder = tmp_path / f"{dies_at}-{keeps}"
            journal = Journal.open(folder)
            store, stage = LocalStore(journal), Stage()
            await add(store, task(), signal("a"), signal("b", kind="rare"))
            mortal = MortalStore(store, dies_at, keeps=keeps)
            first = asyncio.create_task(worker(mortal, store, stage).run())
            await asyncio.wait(
                [asyncio.create_task(mortal.dead.wait()), asyncio.create_task(settled(store, 2))],
                return_when=asyncio.FIRST_COMPLETED,
            )
            await killed(first)
            async with working(store, stage):
                await settled(store, 2)
            assert [c.signal_id for c in await everything(store, "candidate", Candidate)] in (
                ["a", "b"],
                ["b", "a"],
            )
            assert len(await everything(store, "exploration", Exploration)) == 2
            calls = await everything(store, "model_call", ModelCall)
            assert len({(call.signal_id, call.ordinal) for call in calls}) == 2 * CALLS
            assert len(calls) == 2 * CALLS
            # Two calls may be in flight; those without a record must be repeated.
            assert len(stage.asked) <= 2 * CALLS + (0 if keeps else 2)
            journal.close()


async def test_a_restarted_signal_pays_only_for_new_calls(store: LocalStore):
    stage = Stage(held={"s": asyncio.Event()})
    await add(store, signal("s"))
    first = asyncio.create_task(worker(store, store, stage).run())
    await appeared(store, "model_call")
    await killed(first)
    stage.held["s"].set()
    async with working(store, stage):
        await settled(store, 1)
    assert stage.asked == [("policy@0", "s", ordinal) for ordinal in range(CALLS)]


async def test_recorded_calls_of_another_model_are_not_reused(store: LocalStore):
    stage = Stage(held={"s": asyncio.Event()})
    await add(store, signal("s"))
    first = asyncio.create_task(worker(store, store, stage).run())
    await appeared(store, "model_call")
    await killed(first)
    await add(store, SynthesizerSwapped(request_id="r", model=endpoint("glm"), synthesizer="glm"))
    stage.held["s"].set()
    async with working(store, stage):
        assert (await settled(store, 1))["s"].synthesizer == "glm"
    assert [name for name, _, _ in stage.asked] == ["policy@0"] + ["glm"] * CALLS


async def test_kinds_take_turns_and_the_best_and_newest_comes_first(store: LocalStore):
    stage = Stage()
    await add(
        store,
        signal("f1", score=0.9),
        signal("f2", score=0.9),
        signal("f3", score=0.95),
        signal("b1", kind="boundary", score=0.1),
        signal("b2", kind="boundary", score=0.2),
        signal("r1", kind="rare", score=0.01),
    )
    async with working(store, stage, config(concurrent=1)):
        order = list(await settled(store, 6))
    assert order == ["f3", "b2", "r1", "f2", "b1", "f1"]


async def test_no_more_signals_are_in_work_than_configured(store: LocalStore):
    stage = Stage()
    await add(store, *(signal(f"s{n}") for n in range(9)))
    async with working(store, stage, config(concurrent=3)):
        await settled(store, 9)
    assert stage.most_in_work == 3


async def test_a_signal_that_the_policy_has_left_behind_expires(store: LocalStore):
    stage = Stage()
    await add(store, signal("old", version=1), signal("new", version=2), version(21))
    async with working(store, stage, config(expire_versions=20)) as part:
        outcomes = await settled(store, 2)
        assert part.status().policy_version == 21
    assert outcomes["old"].outcome == "expired"
    assert outcomes["old"].reason == "the policy is at version 21"
    assert outcomes["new"].outcome == "synthesized"
    assert {brief.signal_id for brief in stage.briefs} == {"new"}


async def test_no_more_signals_wait_for_a_model_that_rests_than_may(store: LocalStore):
    stage = Stage(down={"policy@0"})
    old = [signal(f"o{n}", version=1, score=n / 10) for n in range(3)]
    new = [signal(f"n{n}", version=2, kind="rare") for n in range(3)]
    await add(store, *new, *old)
    async with working(store, stage, config(waiting_capacity=4)) as part:
        outcomes = await settled(store, 2)
        assert part.status().mailbox == 4
        stage.down.clear()
        whole = await settled(store, 6)
    assert {name: each.outcome for name, each in outcomes.items()} == {
        "o0": "expired",
        "o1": "expired",
    }
    reason = "synthesizer.waiting_capacity = 4 newer or better signals wait"
    assert {each.reason for each in outcomes.values()} == {reason}
    assert Counter(each.outcome for each in whole.values()) == {"expired": 2, "synthesized": 4}


async def test_a_retried_signal_for_which_there_is_no_room_is_answered_and_not_settled_again(
    store: LocalStore,
):
    stage = Stage(down={"policy@0"})
    await add(store, signal("s", version=1))
    (record,) = await store.scan("signal")
    retried = LetterRetried(letter=77, consumer="synthesizer", sequence=record.sequence)
    await add(store, retried, signal("t", version=2))
    async with working(store, stage, config(waiting_capacity=1)):
        await appeared(store, "letter_answered")
        await settled(store, 1)
    (answer,) = await everything(store, "letter_answered", LetterAnswered)
    assert (answer.letter, answer.done) == (77, False)
    assert "waiting_capacity" in answer.outcome
    assert len(await everything(store, "signal_settled", SignalSettled)) == 1


@pytest.mark.parametrize(
    "error",
    [
        EndpointError("no route"),
        AnswerError("gibberish, twice"),
        GeneratorError("the engine broke"),
        UnicodeDecodeError("utf-8", b"", 0, 1, "of nobody's expectation"),
    ],
)
async def test_a_signal_at_which_a_model_fails_that_answers_others_is_a_dead_letter(
    store: LocalStore, error: Exception
):
    stage = Stage(fails={"s": error}, barren={"l0", "l1", "l2"})
    await add(store, signal("s"), *(signal(f"l{n}", kind="rare") for n in range(3)))
    async with working(store, stage, config(concurrent=1)) as part:
        outcomes = await settled(store, 4)
        assert part.status().last_error == reason_of(error)
    assert (outcomes["s"].outcome, outcomes["s"].reason) == ("failed", reason_of(error))
    assert {outcomes[f"l{n}"].outcome for n in range(3)} == {"nothing_found"}
    (letter,) = await everything(store, "dead_letter", DeadLetter)
    (record,) = [r for r in await store.scan("signal") if b"\xa1s" in r.body]
    assert (letter.consumer, letter.sequence) == ("synthesizer", record.sequence)
    assert (letter.unit, letter.attempts) == ("signal: signal_id s", 3)


async def test_a_signal_of_a_dead_letter_is_retried_on_request(store: LocalStore):
    stage = Stage(fails={"s": EndpointError("no route")}, barren={"l0", "l1", "l2"})
    await add(store, signal("s"), *(signal(f"l{n}", kind="rare") for n in range(3)))
    async with working(store, stage, config(concurrent=1)):
        await appeared(store, "dead_letter")
        (record,) = await store.scan("dead_letter")
        letter = decode_as(record, DeadLetter)
        stage.fails.clear()
        await add(
            store,
            LetterRetried(letter=record.sequence, consumer="synthesizer", sequence=letter.sequence),
        )
        await appeared(store, "letter_answered")
    (answer,) = await everything(store, "letter_answered", LetterAnswered)
    assert (answer.letter, answer.done) == (record.sequence, True)
    assert answer.outcome == "candidate, exploration, signal_settled"
    assert [c.signal_id for c in await everything(store, "candidate", Candidate)] == ["s"]


async def test_a_signal_that_kills_the_process_is_a_dead_letter_and_harms_no_other(
    store: LocalStore,
):
    stage = Stage(held={"s": asyncio.Event(), "t": asyncio.Event()})
    await add(store, signal("s"), signal("t", kind="rare"))
    for deaths in range(4):  # the last attempt is made twice
        running = asyncio.create_task(worker(store, store, stage).run())
        await until(lambda: stage.in_work == (1 if deaths else 2))  # noqa: B023
        await killed(running)
        if deaths == 0:
            stage.held["t"].set()
    async with working(store, stage):
        outcomes = await settled(store, 2)
    assert (outcomes["s"].outcome, outcomes["s"].reason) == ("failed", KILLED)
    assert outcomes["t"].outcome == "synthesized"


async def test_nothing_begins_beside_a_signal_that_may_have_killed_the_process(store: LocalStore):
    stage = Stage(held={"s": asyncio.Event()})
    await add(store, signal("s"))
    running = asyncio.create_task(worker(store, store, stage).run())
    await until(lambda: stage.in_work == 1)
    await killed(running)
    await add(store, signal("fresh", kind="rare"))
    async with working(store, stage):
        await until(lambda: stage.in_work == 1)
        await asyncio.sleep(0.05)
        assert [each.signal_id for each in stage.briefs] == ["s", "s"]
        stage.held["s"].set()
        await settled(store, 2)


async def test_a_signal_that_failed_waits_behind_the_others_of_its_kind(store: LocalStore):
    stage = Stage(fails={"s": AnswerError("gibberish")})
    await add(store, signal("s", score=0.9), signal("other", score=0.1))
    async with working(store, stage, config(concurrent=1)):
        assert [*await settled(store, 1)] == ["other"]
    assert [each.signal_id for each in stage.briefs[:2]] == ["s", "other"]


class Strict(ToolBriefs):
    """Says of one signal's candidates that they practise something else."""

    def practises(self, brief: Brief, task: Task | None, body: msgspec.Raw) -> bool:
        return brief.signal_id != "beside"


async def test_a_candidate_that_practises_something_else_is_left_out(store: LocalStore):
    part = SynthesizerWorker(
        context_of(CONFIG, store, "synthesizer"),
        open_model=Stage().open_model,
        told=Strict(CONFIG, source=NumberedSource()),
    )
    running = asyncio.create_task(part.run())
    await add(store, signal("s"), signal("beside"))
    outcomes = await settled(store, 2)
    await part.stop()
    await running
    beside = outcomes["beside"]
    assert (beside.outcome, beside.candidates, beside.simulator_calls) == ("nothing_found", 0, 7)
    assert [c.signal_id for c in await everything(store, "candidate", Candidate)] == ["s"]


async def test_a_model_that_answers_nothing_usable_uses_up_no_signal_and_rests(store: LocalStore):
    names = [f"s{n}" for n in range(6)]
    stage = Stage(fails=dict.fromkeys(names, AnswerError("ok")))
    await add(store, *(signal(name) for name in names))
    async with working(store, stage):
        await appeared(store, "model_rests")
        await add(store, version(1000))
        await until(lambda: len(stage.briefs) >= 8)
        assert await everything(store, "signal_settled", SignalSettled) == []
        stage.fails.clear()
        await settled(store, 1)
        await appeared(store, "model_answers")
    (rests,) = await everything(store, "model_rests", ModelRests)
    assert (rests.synthesizer, rests.failures, rests.reason) == ("policy@0", 3, "ok")
    assert await everything(store, "dead_letter", DeadLetter) == []


async def test_a_broken_engine_is_opened_afresh(store: LocalStore):
    stage = Stage(fails={"s": GeneratorError("the engine broke")})
    await add(store, signal("s"))
    async with working(store, stage, config(concurrent=1)) as part:
        await until(lambda: bool(part.status().last_error))
        stage.fails.clear()
        await settled(store, 1)
        assert stage.open == ["policy@0"]
        assert part.cpu_s() == 2.0


async def test_a_broken_simulator_is_tried_again_with_the_calls_that_were_made(
    store: LocalStore,
):
    stage = Stage(fails={"s": SimulatorError("the child died")})
    await add(store, signal("s"))
    async with working(store, stage):
        outcome = (await settled(store, 1))["s"]
    assert (outcome.outcome, outcome.reason) == ("failed", "the child died")
    assert len(stage.briefs) == CONFIG.rollout.tries
    assert stage.asked == [("policy@0", "s", 0)]


async def test_a_dead_endpoint_uses_up_no_signals_and_recovers(store: LocalStore):
    stage = Stage(held={"s0": asyncio.Event(), "s1": asyncio.Event()})
    await add(store, *(signal(f"s{n}", score=1 - n / 10) for n in range(6)))
    async with working(store, stage) as part:
        await until(lambda: stage.in_work == 2)
        stage.down.add("policy@0")
        for event in stage.held.values():
            event.set()
        await until(lambda: stage.in_work == 0)
        checks = len(stage.checks)
        await until(lambda: len(stage.checks) >= checks + 3)
        assert part.status().last_error == "policy@0 does not answer"
        assert "the model to answer" in part.status().waits_for
        assert len(await settled(store, 0)) == 0
        assert len(stage.briefs) == 2
        stage.down.clear()
        outcomes = await settled(store, 6)
    assert [each.outcome for each in outcomes.values()] == ["synthesized"] * 6


def waits(part: SynthesizerWorker) -> str:
    return part.status().waits_for


async def test_the_pauses_of_a_dead_endpoint_grow(store: LocalStore):
    stage = Stage(down={"policy@0"})
    await add(store, signal("s"))
    started = time.monotonic()
    async with working(store, stage) as part:
        await until(lambda: len(stage.checks) == 4)
        assert time.monotonic() - started > PAUSE_S * (1 + 2 + 4)
        await add(store, signal("t"))
        await until(lambda: "the model to answer (0 signals in work, 2 wait)" in waits(part))
    assert stage.briefs == []


async def test_a_model_that_cannot_be_opened_at_the_start_is_tried_again(store: LocalStore):
    stage, tries = Stage(), 0

    def open_model(model: object):
        nonlocal tries
        tries += 1
        if tries < 3:
            raise EndpointError("COEVOLVE_KEY is not set")
        return stage.open_model(endpoint("glm"))

    part = SynthesizerWorker(
        context_of(CONFIG, store, "synthesizer"),
        open_model=open_model,
        told=told(CONFIG),
        first_pause_s=PAUSE_S,
    )
    running = asyncio.create_task(part.run())
    await until(lambda: tries == 2)
    assert part.status().last_error == "COEVOLVE_KEY is not set"
    await add(store, signal("s"))
    assert (await settled(store, 1))["s"].synthesizer == "glm"
    await part.stop()
    await running


async def test_the_budget_of_the_run_ends_synthesis_and_outlives_a_restart(store: LocalStore):
    stage = Stage()
    run_config = config(max_tokens=2 * CALLS * TOKENS)
    await add(store, *(signal(f"s{n}") for n in range(2)))
    async with working(store, stage, run_config):
        await settled(store, 2)
    await add(store, signal("s2"))
    async with working(store, stage, run_config):
        outcome = (await settled(store, 3))["s2"]
    assert (outcome.outcome, len(stage.asked)) == ("over_budget", 2 * CALLS)
    assert outcome.reason.startswith(
        "synthesizer.max_tokens: the limit of the run is 60; 60 are used"
    )


async def test_a_paused_run_begins_no_signal_but_finishes_and_swaps(store: LocalStore):
    stage = Stage(held={"s0": asyncio.Event()})
    await add(store, signal("s0"))
    async with working(store, stage) as part:
        await until(lambda: stage.in_work == 1)
        await add(store, RunPaused(run_id="r"))
        await until(lambda: part.status().waits_for.startswith("the run to be continued"))
        await add(store, signal("s1"), swap("w", "glm"))
        stage.held["s0"].set()
        await settled(store, 1)
        await appeared(store, "synthesizer_swapped")
    async with working(store, stage) as part:
        await until(lambda: part.status().mailbox == 1)
        await asyncio.sleep(0.05)
        assert len(stage.briefs) == 1
        await add(store, RunContinued(run_id="r"))
        outcomes = await settled(store, 2)
    assert (outcomes["s0"].synthesizer, outcomes["s1"].synthesizer) == ("policy@0", "glm")


async def test_a_swap_loses_nothing_and_the_old_model_finishes_what_it_began(store: LocalStore):
    stage = Stage(held={"s0": asyncio.Event()})
    await add(store, signal("s0"))
    async with working(store, stage) as part:
        await until(lambda: stage.in_work == 1)
        await add(store, swap("w", "glm"))
        await appeared(store, "synthesizer_swapped")
        await add(store, signal("s1"))
        await settled(store, 1)
        assert sorted(stage.open) == ["glm", "policy@0"]
        stage.held["s0"].set()
        outcomes = await settled(store, 2)
        await until(lambda: stage.open == ["glm"])
        assert part.cpu_s() == 2.0
    assert (outcomes["s1"].synthesizer, outcomes["s0"].synthesizer) == ("glm", "policy@0")
    assert {outcome.outcome for outcome in outcomes.values()} == {"synthesized"}
    assert await everything(store, "synthesizer_swapped", SynthesizerSwapped) == [
        SynthesizerSwapped(request_id="w", model=endpoint("glm"), synthesizer="glm")
    ]
    assert stage.open == []


async def test_a_model_that_does_not_answer_is_refused_and_the_old_one_goes_on(store: LocalStore):
    stage = Stage(down={"glm"})
    await add(store, swap("w", "glm"))
    async with working(store, stage):
        await appeared(store, "swap_refused")
        await add(store, signal("s"))
        assert (await settled(store, 1))["s"].synthesizer == "policy@0"
        assert stage.open == ["policy@0"]
    assert await everything(store, "swap_refused", SwapRefused) == [
        SwapRefused(request_id="w", reason="glm does not answer")
    ]


async def test_a_restarted_part_keeps_the_newest_swap(store: LocalStore):
    stage = Stage()
    await add(store, swap("w1", "glm"), swap("w2", "qwen"))
    async with working(store, stage):
        await appeared(store, "synthesizer_swapped", 2)
    await add(store, signal("s"))
    async with working(store, stage):
        assert (await settled(store, 1))["s"].synthesizer == "qwen"
    assert stage.checks.count("glm") == 1


@pytest.mark.parametrize("keeps", [False, True])
async def test_a_swap_is_made_once_although_it_was_killed(store: LocalStore, keeps: bool):
    stage = Stage()
    await add(store, swap("w", "glm"))
    mortal = MortalStore(store, 1, keeps=keeps)
    first = asyncio.create_task(worker(mortal, store, stage).run())
    await mortal.dead.wait()
    await killed(first)
    async with working(store, stage):
        await appeared(store, "synthesizer_swapped")
        await add(store, signal("s"))
        assert (await settled(store, 1))["s"].synthesizer == "glm"
    assert len(await store.scan("synthesizer_swapped")) == 1


async def test_no_pause_is_longer_than_the_longest_rest(store: LocalStore):
    stage = Stage(down={"policy@0"})
    run_config = config(longest_rest_s=0.01)
    part = SynthesizerWorker(
        context_of(run_config, store, "synthesizer"),
        open_model=stage.open_model,
        told=told(run_config),
        first_pause_s=3600.0,
    )
    running = asyncio.create_task(part.run())
    await until(lambda: len(stage.checks) >= 4)
    stage.down.clear()
    await add(store, signal("s"))
    assert (await settled(store, 1))["s"].outcome == "synthesized"
    await part.stop()
    await running


RESTS = ModelRests(synthesizer="policy@0", failures=3, reason="no answer")


@pytest.mark.parametrize(
    ("journal", "answers"),
    [
        ([], 0),
        ([RESTS], 1),
        ([RESTS, ModelAnswers(synthesizer="policy@0")], 1),
        ([RESTS, SynthesizerSwapped(request_id="r", model=endpoint("g"), synthesizer="g")], 0),
        ([ModelAnswers(synthesizer="policy@0"), RESTS], 2),
    ],
)
async def test_a_restarted_part_says_once_that_the_model_answers_again(
    store: LocalStore, journal: list[Message], answers: int
):
    if journal:
        await add(store, *journal)
    await add(store, signal("s"), signal("t"))
    async with working(store, Stage()):
        await settled(store, 2)
    assert len(await store.scan("model_answers")) == answers


async def test_a_swap_ends_the_pause_of_a_dead_endpoint(store: LocalStore):
    stage = Stage(down={"policy@0"})
    part = SynthesizerWorker(
        context_of(CONFIG, store, "synthesizer"),
        open_model=stage.open_model,
        told=told(CONFIG),
        first_pause_s=3600.0,
    )
    running = asyncio.create_task(part.run())
    await until(lambda: bool(stage.checks))
    await add(store, signal("s"), swap("w", "glm"))
    assert (await settled(store, 1))["s"].synthesizer == "glm"
    await part.stop()
    await running
    assert stage.open == []


async def test_a_held_out_task_is_never_shown(store: LocalStore):
    stage = Stage()
    await add(store, task("secret", split="held_out"))
    leaking = msgspec.structs.replace(signal("s").about, task_id="secret")
    await add(store, signal("s", about=leaking), signal("later", kind="rare"))
    async with working(store, stage):
        outcomes = await settled(store, 2)
    assert outcomes["s"].outcome == "failed"
    assert "held_out" in outcomes["s"].reason
    assert outcomes["later"].outcome == "synthesized"
    assert {brief.signal_id for brief in stage.briefs} == {"later"}


async def test_a_stopped_part_leaves_its_signals_open_and_its_model_closed(store: LocalStore):
    stage = Stage(held={"s": asyncio.Event()})
    await add(store, signal("s"))
    async with working(store, stage):
        await until(lambda: stage.in_work == 1)
    assert stage.open == []
    assert await store.scan("signal_settled") == []


async def test_a_displaced_part_settles_nothing_twice(store: LocalStore):
    stage = Stage(held={"s": asyncio.Event()})
    await add(store, signal("s"))
    first = asyncio.create_task(worker(store, store, stage).run())
    await until(lambda: stage.in_work == 1)
    async with working(store, stage):
        with pytest.raises(BaseExceptionGroup):
            await asyncio.wait_for(first, 10.0)
        stage.held["s"].set()
        await settled(store, 1)
    assert len(await store.scan("candidate")) == 1
