import asyncio
from collections.abc import Callable, Sequence

import pytest

from coevolve.environments.tools.commands import (
    Act,
    Broken,
    Command,
    Failed,
    Grade,
    Observed,
    Passed,
    Ready,
    Release,
    Reply,
    Reset,
    Trial,
    Tried,
)
from coevolve.environments.tools.interfaces import Simulator, SimulatorWorker
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import ToolTask, ToolTurn
from protocols.errors import SimulatorError

LONG_S = 30.0
TASK = ToolTask(
    classes=("GorillaFileSystem",), world="{}", turns=(ToolTurn(instruction="", reference=()),)
)


def usual(command: Command) -> Reply:
    match command:
        case Act(text=text):
            return Observed(result=text, failed=False)
        case Grade():
            return Passed()
        case _:
            return Ready()


class FakeWorker:
    """Answers after one round of the loop, or when ``gate`` opens; records its batches."""

    def __init__(self, answer: Callable[[Command], Reply] = usual) -> None:
        self.batches: list[Sequence[Command]] = []
        self.answer = answer
        self.gate = asyncio.Event()
        self.gate.set()

    async def execute(self, commands: Sequence[Command]) -> Sequence[Reply]:
        self.batches.append(commands)
        await asyncio.sleep(0)
        await self.gate.wait()
        return [self.answer(command) for command in commands]

    def sessions(self) -> list[str]:
        return [c.session for batch in self.batches for c in batch if isinstance(c, Reset)]


class RaisingWorker(FakeWorker):
    async def execute(self, commands: Sequence[Command]) -> Sequence[Reply]:
        self.batches.append(commands)
        raise OSError("no route to worker")


class ForgetfulWorker(FakeWorker):
    async def execute(self, commands: Sequence[Command]) -> Sequence[Reply]:
        return []


def pool_of(*workers: SimulatorWorker) -> Simulator:
    return SimulatorPool(workers)


async def opened(pool: Simulator, session: str) -> None:
    """Open a session and check that it answers."""
    await pool.reset(session, TASK)
    await pool.grade(session)


async def test_everything_that_arrives_during_a_batch_forms_the_next() -> None:
    worker = FakeWorker()
    pool = pool_of(worker)
    for n in range(10):
        await opened(pool, str(n))
    batches = len(worker.batches)
    worker.gate.clear()
    first = asyncio.create_task(pool.act("0", "a"))
    await asyncio.sleep(0.01)
    others = [asyncio.create_task(pool.act(str(n), "b")) for n in range(1, 10)]
    await asyncio.sleep(0.01)
    assert [len(batch) for batch in worker.batches[batches:]] == [1]
    worker.gate.set()
    answers = await asyncio.gather(first, *others)
    assert [answer.result for answer in answers] == ["a"] + ["b"] * 9
    assert [len(batch) for batch in worker.batches[batches:]] == [1, 9]


async def test_a_batch_waits_for_others_only_while_a_session_could_send_one() -> None:
    worker = FakeWorker()
    pool = SimulatorPool([worker], gather_s=LONG_S)
    for name in "abc":
        await pool.reset(name, TASK)
    first, second = (asyncio.create_task(pool.act(name, "ls()")) for name in "ab")
    await asyncio.sleep(0.05)
    assert not worker.batches
    async with asyncio.timeout(LONG_S / 2):
        await pool.release("c")
        await asyncio.gather(first, second)
        await pool.release("b")
        await pool.act("a", "pwd()")
    asked = [[c.session for c in batch if isinstance(c, Act)] for batch in worker.batches]
    assert asked == [["a", "b"], ["a"]]


async def test_trials_wait_for_others_for_the_configured_time() -> None:
    worker = FakeWorker()
    pool = SimulatorPool([worker], gather_s=0.2)
    worker.answer = lambda _: Tried(initial="", turns=())
    first = asyncio.create_task(pool.trial("a", TASK, ()))
    await asyncio.sleep(0.05)
    assert not worker.batches
    await asyncio.gather(first, pool.trial("b", TASK, ()))
    assert [len(batch) for batch in worker.batches] == [2]


async def test_opening_and_forgetting_travel_with_the_next_command_that_is_waited_for() -> None:
    worker = FakeWorker()
    pool = pool_of(worker)
    await pool.reset("x", TASK)
    await pool.release("x")
    await pool.reset("y", TASK)
    assert not worker.batches
    await pool.act("y", "ls()")
    assert [list(batch) for batch in worker.batches] == [
        [
            Reset(session="x", task=TASK),
            Release(session="x"),
            Reset(session="y", task=TASK),
            Act(session="y", text="ls()"),
        ]
    ]


async def test_a_batch_has_a_limit_and_order_is_kept() -> None:
    worker = FakeWorker()
    pool = SimulatorPool([worker], max_batch=4)
    await pool.reset("x", TASK)
    answers = await asyncio.gather(*(pool.act("x", str(n)) for n in range(10)))
    assert [answer.result for answer in answers] == [str(n) for n in range(10)]
    assert [len(batch) for batch in worker.batches] == [4, 4, 3]


async def test_sessions_stay_with_their_worker_and_go_where_the_fewest_are() -> None:
    workers = [FakeWorker(), FakeWorker()]
    pool = pool_of(*workers)
    for name in "abcd":
        await pool.reset(name, TASK)
    await asyncio.gather(*(pool.grade(name) for name in "abcd"))
    assert [worker.sessions() for worker in workers] == [["a", "c"], ["b", "d"]]
    await pool.release("a")
    await pool.release("c")
    await pool.reset("e", TASK)
    await pool.reset("b", TASK)
    await asyncio.gather(pool.grade("e"), pool.act("b", "ls()"))
    assert workers[0].sessions() == ["a", "c", "e"]
    assert workers[1].sessions() == ["b", "d", "b"]
    assert workers[1].batches[-1][-1] == Act(session="b", text="ls()")


async def test_verdicts_are_returned_and_broken_is_raised() -> None:
    worker = FakeWorker()
    pool = pool_of(worker)
    await pool.reset("x", TASK)
    assert await pool.grade("x") == Passed()
    worker.answer = lambda _: Failed(reason="no")
    assert await pool.grade("x") == Failed(reason="no")
    worker.answer = lambda _: Broken(reason="the child ended")
    with pytest.raises(SimulatorError, match="the child ended"):
        await pool.act("x", "ls()")
    worker.answer = usual
    with pytest.raises(SimulatorError, match="session x is not open"):
        await pool.act("x", "ls()")
    await pool.release("x")
    await pool.reset("x", TASK)
    assert (await pool.act("x", "ls()")).result == "ls()"


async def test_only_the_broken_session_of_a_batch_fails() -> None:
    worker = FakeWorker()
    pool = pool_of(worker)
    await asyncio.gather(*(opened(pool, name) for name in "xy"))
    worker.answer = lambda c: Broken(reason="lost") if c.session == "x" else usual(c)
    lost, kept = await asyncio.gather(
        pool.act("x", "ls()"), pool.act("y", "ls()"), return_exceptions=True
    )
    assert isinstance(lost, SimulatorError)
    assert kept == Observed(result="ls()", failed=False)


@pytest.mark.parametrize("worker", [RaisingWorker, ForgetfulWorker])
async def test_a_worker_that_raises_leaves_no_caller_waiting(
    worker: type[FakeWorker],
) -> None:
    pool = pool_of(worker())
    await pool.reset("x", TASK)
    with pytest.raises(SimulatorError):
        await asyncio.wait_for(pool.act("x", "ls()"), 1.0)
    await pool.release("x")


async def test_a_dead_worker_does_not_attract_every_session_and_is_tried_again() -> None:
    dead, sound = FakeWorker(lambda _: Broken(reason="dead")), FakeWorker()
    pool = pool_of(dead, sound)
    failures = 0
    for n in range(40):
        try:
            await opened(pool, str(n))
        except SimulatorError:
            failures += 1
    assert 1 < failures < 5
    dead.answer = usual
    for n in range(40, 140):
        await opened(pool, str(n))
    assert len(dead.sessions()) - failures > 40


async def test_a_caller_that_gives_up_does_not_disturb_the_others() -> None:
    worker = FakeWorker()
    pool = pool_of(worker)
    await asyncio.gather(*(pool.reset(name, TASK) for name in "xy"))
    worker.gate.clear()
    leaving = asyncio.create_task(pool.act("x", "a"))
    staying = asyncio.create_task(pool.act("y", "b"))
    await asyncio.sleep(0.01)
    leaving.cancel()
    worker.gate.set()
    assert (await staying).result == "b"
    assert (await pool.act("x", "c")).result == "c"


async def test_an_answer_out_of_place_is_the_machine_s_fault() -> None:
    worker = FakeWorker()
    pool = pool_of(worker)
    await pool.reset("x", TASK)
    worker.answer = lambda _: Ready()
    with pytest.raises(SimulatorError, match="unexpected reply"):
        await pool.act("x", "ls()")


async def test_releasing_an_unknown_session_is_no_error() -> None:
    worker = FakeWorker()
    await pool_of(worker).release("never opened")
    assert not worker.batches


async def test_trials_travel_in_batches_to_the_emptiest_workers_and_leave_nothing() -> None:
    def answer(command: Command) -> Reply:
        return Tried(initial=command.session, turns=()) if isinstance(command, Trial) else Ready()

    workers = [FakeWorker(answer), FakeWorker(answer)]
    pool = pool_of(*workers)
    await pool.reset("x", TASK)
    names = [f"t{n}" for n in range(5)]
    tried = await asyncio.gather(*(pool.trial(name, TASK, [["ls()"]]) for name in names))
    assert [each.initial for each in tried] == names
    assert [[c.session for batch in w.batches for c in batch] for w in workers] == [
        ["x", "t1", "t3"],
        ["t0", "t2", "t4"],
    ]
    assert all(len(worker.batches) <= 2 for worker in workers)
    assert workers[1].batches[0][0] == Trial(session="t0", task=TASK, turns=(("ls()",),))
    await pool.reset("y", TASK)  # the trials count no more
    await pool.release("y")
    await pool.trial("t5", TASK, ())
    assert workers[1].sessions() == ["y"]


async def test_a_broken_trial_is_the_machine_s_fault() -> None:
    pool = pool_of(FakeWorker(lambda _: Broken(reason="the child ended")))
    with pytest.raises(SimulatorError, match="the child ended"):
        await pool.trial("t", TASK, ())
    misplaced = pool_of(FakeWorker(usual))
    with pytest.raises(SimulatorError, match="unexpected reply"):
        await misplaced.trial("t", TASK, ())


def test_a_pool_needs_a_worker() -> None:
    with pytest.raises(ValueError, match="at least one worker"):
        SimulatorPool([])
