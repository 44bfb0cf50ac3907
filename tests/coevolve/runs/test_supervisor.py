import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from coevolve.loop import LOOP
from coevolve.runs.part_failures import ALIKE, FAILURES
from coevolve.runs.supervisor import Supervisor, note_replacements
from protocols.control import PartFailed, PartStatus
from protocols.errors import (
    CoevolveError,
    ContractError,
    DeliveryError,
    GeneratorError,
    JournalError,
    JournalFullError,
    LearnerError,
    LostError,
    PartDiedError,
    PartRaisedError,
    PartStartError,
    RunError,
)
from protocols.interfaces import SupervisedPart
from tests.fakes import ScriptPart, SteadyPart, all_work


async def supervised(part: ScriptPart) -> list[PartFailed]:
    noted: list[PartFailed] = []

    async def note(failure: PartFailed) -> None:
        noted.append(failure)

    try:
        await Supervisor([part], note, restart_s=5.0, note_resting=all_work).run()
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return noted


async def test_a_dead_part_restarts_and_the_failure_is_recorded():
    part = ScriptPart("learner", [PartDiedError("killed"), None])
    noted = await supervised(part)
    assert part.runs == 2
    assert [(failure.part, failure.reason) for failure in noted] == [("learner", "killed")]


async def test_a_part_that_raised_but_is_alive_gets_a_new_process():
    part = ScriptPart("rollout-0", [PartDiedError("engine broke"), None])
    await supervised(part)
    assert part.renewals == 1


class LingeringPart(ScriptPart):
    """A part whose killed process still answers for a while, as a process of Ray does."""

    def __init__(self, error: CoevolveError) -> None:
        super().__init__("rollout-0", [error] * FAILURES)
        self._dying = 0

    async def run(self) -> None:
        if self._dying:
            raise PartDiedError("rollout-0: its process ended")
        await super().run()

    async def renew(self) -> None:
        self._dying = 2

    async def status(self) -> PartStatus:
        if self._dying:
            self._dying -= 1
            self.pid += not self._dying
        return await super().status()


async def test_a_killed_process_that_still_answers_is_not_taken_for_the_new_one():
    part = LingeringPart(GeneratorError("the logits are not finite"))
    with pytest.raises(RunError, match=r"raised the same error 5 times .* logits are not finite"):
        await supervised(part)


async def test_a_part_that_keeps_failing_ends_the_run_with_its_error_message():
    part = ScriptPart("rollout-0", [PartDiedError("out of memory")] * FAILURES)
    with pytest.raises(
        RunError, match=r"rollout-0 failed .* out of memory; .*; see its log in logs/"
    ):
        await supervised(part)


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (PartRaisedError("rollout-0 raised IndexError: index 7 is out of range"), RunError),
        (GeneratorError("the engine found no finite logits in 3 rows"), RunError),
        (PartDiedError("rollout-0: the worker died unexpectedly"), RunError),
        (JournalError("the store's socket cannot be reached"), LostError),
    ],
)
async def test_an_error_that_a_part_raises_each_time_is_no_loss_that_a_resumption_mends(
    error: CoevolveError, ends: type[RunError]
):
    part = ScriptPart("rollout-0", [error] * FAILURES)
    with pytest.raises(RunError) as ended:
        await supervised(part)
    assert type(ended.value) is ends
    raised = ends is RunError and type(error) is not PartDiedError
    assert part.runs == (ALIKE if raised else FAILURES)
    assert str(error) in str(ended.value)


class WorkedOncePart(ScriptPart):
    """A part that finishes a record in its first run only."""

    async def run(self) -> None:
        self.done = int(self.runs == 0)
        await asyncio.sleep(0)
        await super().run()


async def test_a_part_that_has_worked_and_then_dies_each_time_may_have_been_killed():
    part = WorkedOncePart("rollout-0", [PartDiedError("rollout-0: killed")] * (FAILURES + 1))
    with pytest.raises(LostError, match="rollout-0 failed 8 times"):
        await supervised(part)


async def test_different_errors_in_turn_are_a_loss():
    errors = [PartRaisedError(f"learner raised {name}") for name in "abcdefgh"]
    with pytest.raises(LostError, match="learner failed 8 times"):
        await supervised(ScriptPart("learner", errors))


async def test_kills_of_a_part_that_works_in_between_do_not_end_the_run():
    part = ScriptPart("signals", [*[PartDiedError("killed")] * (2 * FAILURES), None])
    part.done = 1
    noted = await supervised(part)
    assert len(noted) == 2 * FAILURES


@pytest.mark.parametrize("kind", [LearnerError, DeliveryError])
async def test_an_error_that_a_restart_cannot_mend_ends_the_run_at_once(kind: type[CoevolveError]):
    part = ScriptPart("learner", [kind("the loss of step 7 is not finite")])
    with pytest.raises(RunError, match="learner: the loss of step 7 is not finite"):
        await supervised(part)
    assert part.runs == 1


async def test_a_part_that_cannot_start_ends_the_run_at_once():
    part = ScriptPart("learner", [PartStartError("learner: no such model")])
    said = "^learner: no such model; the traceback is in logs/learner.jsonl$"
    with pytest.raises(RunError, match=said):
        await supervised(part)
    assert part.runs == 1


async def test_a_part_that_comes_back_when_the_run_was_stopped_does_not_run_again():
    part = ScriptPart("rollout-0", [PartDiedError("killed"), None])

    async def stop(_: PartFailed) -> None:
        await supervisor.stop()

    supervisor = Supervisor([part], stop, restart_s=5.0, note_resting=all_work)
    await supervisor.run()
    assert part.runs == 1


async def test_a_part_that_ray_restarts_is_recorded_once_per_process(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("coevolve.runs.supervisor.LOOK_S", 0.01)
    part = ScriptPart("simulator-0", [])
    noted: list[PartFailed] = []
    told = asyncio.Event()

    async def note(failure: PartFailed) -> None:
        noted.append(failure)
        told.set()

    watching = asyncio.create_task(note_replacements([part], note))
    await asyncio.sleep(0.1)
    part.alive = False
    await asyncio.sleep(0.1)
    assert not noted
    part.alive, part.pid = True, 2
    async with asyncio.timeout(30.0):
        await told.wait()
    await asyncio.sleep(0.1)
    watching.cancel()
    assert [failure.part for failure in noted] == ["simulator-0"]


async def test_an_optional_part_that_keeps_failing_rests_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
):
    for name, seconds in (("REST_S", 0.02), ("STEADY_S", 0.02), ("PAUSE_S", 0.001)):
        monkeypatch.setattr(f"coevolve.runs.supervisor.{name}", seconds)
    learner = ScriptPart("learner", [None])
    part = ScriptPart("signals", [PartDiedError("no memory")] * (FAILURES + 1))
    noted: list[Mapping[str, str]] = []
    works = asyncio.Event()

    async def note(failure: PartFailed) -> None:
        del failure

    async def note_resting(causes: Mapping[str, str]) -> None:
        noted.append(causes)
        if not causes:
            works.set()

    lasting = SteadyPart("signals")
    part.then = lasting
    supervisor = with_optional([part, learner], note, note_resting)
    running = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(30.0):
        await works.wait()
        await lasting.stop()
        await supervisor.stop()
        await running
    assert learner.runs == 1
    first, again, last = noted
    assert list(first) == list(again) == ["signals"]
    assert "signals failed 8 times within 120 s; last error: no memory" in first["signals"]
    assert again["signals"] == "signals: no memory"
    assert last == {}


async def test_a_part_that_works_again_while_the_disk_is_full_is_noted_later(
    monkeypatch: pytest.MonkeyPatch,
):
    for name, seconds in (("REST_S", 0.02), ("STEADY_S", 0.02), ("ROOM_LOOK_S", 0.02)):
        monkeypatch.setattr(f"coevolve.runs.supervisor.{name}", seconds)
    part = ScriptPart("signals", [ContractError("wrong")])
    part.then = lasting = SteadyPart("signals")
    noted: list[Mapping[str, str]] = []
    refusals = [JournalFullError("no room"), JournalFullError("no room")]
    works = asyncio.Event()

    async def note(failure: PartFailed) -> None:
        del failure

    async def note_resting(causes: Mapping[str, str]) -> None:
        if not causes and refusals:
            raise refusals.pop()
        noted.append(causes)
        if not causes:
            works.set()

    supervisor = with_optional([part], note, note_resting)
    await run_until(works, supervisor, lasting)
    assert not refusals
    assert noted == [{"signals": "signals: wrong"}, {}]


def with_optional(
    parts: Sequence[SupervisedPart],
    note: Callable[[PartFailed], Awaitable[None]],
    note_resting: Callable[[Mapping[str, str]], Awaitable[None]],
) -> Supervisor:
    """Return a supervisor that knows which parts of the loop are optional."""
    optional = [spec.name for spec in LOOP if spec.is_optional]
    return Supervisor(parts, note, restart_s=5.0, note_resting=note_resting, optional=optional)


async def run_until(works: asyncio.Event, supervisor: Supervisor, lasting: SteadyPart) -> None:
    """Run until the event is set, and stop in any case."""
    running = asyncio.create_task(supervisor.run())
    try:
        async with asyncio.timeout(10.0):
            await works.wait()
    finally:
        await lasting.stop()
        await supervisor.stop()
        await running


async def test_no_pause_of_a_part_that_rests_is_longer_than_the_longest(
    monkeypatch: pytest.MonkeyPatch,
):
    for name, seconds in (("REST_S", 3600.0), ("LONGEST_REST_S", 0.02), ("STEADY_S", 0.02)):
        monkeypatch.setattr(f"coevolve.runs.supervisor.{name}", seconds)
    part = ScriptPart("signals", [ContractError("wrong")] * 3)
    part.then = lasting = SteadyPart("signals")
    works = asyncio.Event()

    async def note(failure: PartFailed) -> None:
        del failure

    async def note_resting(causes: Mapping[str, str]) -> None:
        if not causes:
            works.set()

    supervisor = Supervisor(
        [part], note, restart_s=5.0, note_resting=note_resting, optional=["signals"]
    )
    await run_until(works, supervisor, lasting)
    assert part.runs == 4


class FailsAtStop(SteadyPart):
    """A part that raises an error when it is stopped."""

    def __init__(self, name: str, error: CoevolveError) -> None:
        super().__init__(name)
        self._error = error
        self.works = asyncio.Event()

    async def run(self) -> None:
        self.works.set()
        await super().run()
        raise self._error


@pytest.mark.parametrize(
    ("name", "error", "ends"),
    [
        ("learner", DeliveryError("other weights"), True),
        ("learner", PartDiedError("killed"), False),
        ("evaluator", DeliveryError("other weights"), False),
    ],
)
async def test_a_stop_hides_no_error_that_a_resumption_would_meet(
    name: str, error: CoevolveError, ends: bool
):
    part = FailsAtStop(name, error)

    async def note(failure: PartFailed) -> None:
        del failure

    supervisor = Supervisor(
        [part], note, restart_s=5.0, note_resting=all_work, optional=["evaluator"]
    )
    running = asyncio.create_task(supervisor.run())
    await part.works.wait()
    await supervisor.stop()
    if ends:
        with pytest.raises(ExceptionGroup) as group:
            await running
        assert group.group_contains(RunError, match="learner: other weights")
    else:
        await running


async def test_a_part_that_begins_to_rest_while_the_disk_is_full_ends_no_run(
    monkeypatch: pytest.MonkeyPatch,
):
    for name, seconds in (("REST_S", 0.2), ("STEADY_S", 0.02), ("ROOM_LOOK_S", 0.02)):
        monkeypatch.setattr(f"coevolve.runs.supervisor.{name}", seconds)
    part = ScriptPart("signals", [ContractError("wrong")])
    part.then = lasting = SteadyPart("signals")
    noted: list[Mapping[str, str]] = []
    refusals = [JournalFullError("no room"), JournalFullError("no room")]
    works = asyncio.Event()

    async def note(failure: PartFailed) -> None:
        raise JournalFullError(f"no room for {failure.part}")

    async def note_resting(causes: Mapping[str, str]) -> None:
        if causes and refusals:
            raise refusals.pop()
        noted.append(causes)
        if not causes:
            works.set()

    supervisor = with_optional([part], note, note_resting)
    await run_until(works, supervisor, lasting)
    assert not refusals
    assert noted == [{"signals": "signals: wrong"}, {}]


@pytest.mark.parametrize("error", [PartDiedError("no memory"), ContractError("wrong")])
async def test_an_optional_part_never_ends_the_run(error: CoevolveError):
    part = ScriptPart("validator", [error] * FAILURES)
    causes: list[Mapping[str, str]] = []

    async def note(failure: PartFailed) -> None:
        del failure

    async def stop(resting: Mapping[str, str]) -> None:
        causes.append(resting)
        await supervisor.stop()

    supervisor = with_optional([part], note, stop)
    await supervisor.run()
    assert [list(each) for each in causes] == [["validator"]]


def test_training_needs_those_who_ask_for_attempts_make_them_and_learn_from_them():
    needed = [spec.name for spec in LOOP if not spec.is_optional]
    assert needed == ["curriculum", "rollout", "learner"]


async def test_an_engine_that_keeps_failing_is_let_go_while_another_works():
    broken = ScriptPart("rollout-0", [PartDiedError("out of memory")] * FAILURES)
    other = SteadyPart("rollout-1")

    async def note(failure: PartFailed) -> None:
        del failure

    supervisor = Supervisor(
        [broken, other], note, restart_s=5.0, note_resting=all_work, spare=[broken, other]
    )
    running = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(30.0):
        while not supervisor.failed:  # noqa: ASYNC110 -- nothing tells of it
            await asyncio.sleep(0.01)
        await supervisor.stop()
        await running
    assert "out of memory" in supervisor.failed["rollout-0"]
