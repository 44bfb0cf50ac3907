"""The frontier: which state the next group starts from, and that it is a fold of the journal."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from coevolve.environments.hdl.config import HdlConfig
from coevolve.environments.hdl.designs.design import Design, DesignFile
from coevolve.environments.hdl.policy.frontier import (
    MOST_RECORDED,
    Frontier,
    beginning,
    chosen,
    continued,
)
from coevolve.environments.hdl.policy.task import CoverageTask, coverage_task
from coevolve.environments.hdl.policy.transition import Blank, Graded, outcome_key
from coevolve.environments.hdl.settings import with_hdl
from coevolve.environments.hdl.simulate.messages import Covered
from coevolve.environments.settings import section
from coevolve.journal.snapshots import Piece
from protocols.config import RunConfig
from protocols.journal import Message
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest, Tokens
from protocols.tasks import NOTHING as NO_OUTCOME
from protocols.tasks import Task, body_of
from tests.hdl_points import unit
from tests.hdl_transitions import FAILED, covered

SIZE = 3


def hitting(*points: int) -> Graded:
    """Return a testbench that covers these of 16 points."""
    hits = sum(1 << point for point in points).to_bytes(2, "little")
    made = covered((len(points), 16), testbench=f"tb {points}")
    assert isinstance(made.outcome, Covered)
    coverage = msgspec.structs.replace(made.outcome.coverage, hits=hits)
    outcome = msgspec.structs.replace(made.outcome, coverage=coverage)
    return msgspec.structs.replace(made, outcome=outcome)


NOTHING = Tokens(token_ids=b"", mask=b"", logprobs=b"", versions=b"")

LOW, MIDDLE, HIGH, FULL = (covered((n, 100), testbench=f"tb {n}") for n in (10, 40, 70, 100))


def design(name: str) -> Design:
    file = DesignFile(top="top", family="few", split="train", files=("top.sv",), threshold=0.9)
    return Design(
        design_id=name,
        file=file,
        unit=msgspec.structs.replace(unit(), name=name),
        ports=(),
        specification="It counts.",
        testbenches={},
        mutants=(),
    )


def config(*, rounds: int = 2, seed: int = 0) -> RunConfig:
    return RunConfig(name="few", seed=seed, environment=section("hdl", HdlConfig(rounds=rounds)))


class Desk:
    """A frontier, and the journal that it reads."""

    def __init__(self, settings: RunConfig, names: Sequence[str] = ("a", "b")) -> None:
        self._settings = settings
        self._designs = [design(name) for name in names]
        self.records: list[Message] = []
        self.frontier = self.folded()
        self.groups = 0

    def folded(self, kept: int | None = None) -> Frontier:
        """Return a frontier made from the journal alone, or from its first records."""
        frontier = Frontier(self._settings, self._designs)
        for record in self.records[:kept]:
            frontier.fold(record)
        return frontier

    def resumed(self, kept: int) -> Frontier:
        """Return a frontier from a snapshot of the first records, and from the others."""
        first, frontier = self.folded(kept), Frontier(self._settings, self._designs)
        state = msgspec.msgpack.encode(first.state)
        frontier.state = msgspec.msgpack.decode(state, type=type(frontier.state))
        assert isinstance(frontier, Piece)
        assert msgspec.json.schema(type(frontier.state))
        assert frontier.settings == first.settings
        assert msgspec.json.encode(frontier.settings)
        for record in self.records[kept:]:
            frontier.fold(record)
        return frontier

    def ask(self) -> CoverageTask:
        """Request the next group, like the curriculum."""
        draw = self.frontier.task(self.groups)
        request = RolloutRequest(
            group_id=f"g{self.groups}",
            group=self.groups,
            index=0,
            group_size=SIZE,
            task_id=draw.task_id,
            seed=1,
            policy_version_at_least=0,
        )
        for record in (*draw.news, request):
            self.frontier.fold(record)
            self.say(record)
        self.groups += 1
        return next(
            coverage_task(each)
            for each in self.records
            if isinstance(each, Task) and each.task_id == draw.task_id
        )

    def say(self, record: Message) -> None:
        self.records.append(record)
        self.frontier.fold(record)

    def answer(self, group: int, *states: Graded | None) -> None:
        """Finish a group's rollouts; None stands for a failed one."""
        for index, state in enumerate(states):
            if state is None:
                self.say(failed(group, index))
            else:
                self.say(rollout(group, index, state))


def rollout(group: int, index: int, state: Graded | None) -> Rollout:
    return Rollout(
        group_id=f"g{group}",
        group=group,
        index=index,
        group_size=SIZE,
        task_id="a",
        seed=0,
        tokens=NOTHING,
        actions=(),
        turns_passed=0,
        turns_total=1,
        reward=0.0,
        version_min=0,
        version_max=0,
        ended="wrong",
        wall_s=0.1,
        outcome=NO_OUTCOME if state is None else body_of(state),
        outcome_key=outcome_key(state),
    )


def failed(group: int, index: int) -> FailedRollout:
    return FailedRollout(
        group_id=f"g{group}",
        group=group,
        index=index,
        group_size=SIZE,
        task_id="a",
        reason="broken",
        tries=3,
    )


def test_every_design_comes_once_before_any_comes_again():
    desk = Desk(config(), ("a", "b", "c"))
    begun = [desk.ask().design for _ in range(9)]
    assert [sorted(begun[n : n + 3]) for n in (0, 3, 6)] == [["a", "b", "c"]] * 3
    orders = {tuple(Desk(config(seed=n), ("a", "b", "c")).ask().design) for n in range(20)}
    assert len(orders) == 3


def test_the_next_group_starts_from_the_worst_testbench():
    desk = Desk(config())
    first = desk.ask()
    assert isinstance(first.state, Blank)
    desk.answer(0, HIGH, LOW, MIDDLE)
    second = desk.ask()
    assert second.design == first.design
    assert second.state == LOW
    assert (second.round, second.parent) == (1, "g0/1")
    desk.answer(1, HIGH, LOW, MIDDLE)
    assert isinstance(desk.ask().state, Blank)


def test_a_design_is_worked_on_for_as_many_rounds_as_configured():
    desk = Desk(config(rounds=4), ("a",))
    rounds: list[int] = []
    for group in range(6):
        rounds.append(desk.ask().round)
        desk.answer(group, HIGH, LOW, MIDDLE)
    assert rounds == [0, 1, 2, 3, 0, 1]


def test_a_group_of_only_failed_rollouts_ends_its_chain():
    desk = Desk(config(), ("a",))
    desk.ask()
    desk.answer(0, None, None, None)
    assert isinstance(desk.ask().state, Blank)
    desk.answer(1, None, MIDDLE, None)
    assert desk.ask().state == MIDDLE


def test_any_prefix_of_the_journal_leads_to_the_same_next_task():
    desk = Desk(config(rounds=3), ("a", "b", "c"))
    generator = np.random.default_rng(5)
    for group in range(30):
        desk.ask()
        if group % 2:
            states = [(HIGH, LOW, MIDDLE, FAILED, None)[n] for n in generator.integers(0, 5, SIZE)]
            desk.answer(group - 1, *states)
            desk.answer(group, *states[::-1])
        again = desk.folded()
        assert again.task(group + 1) == desk.frontier.task(group + 1)


@pytest.mark.parametrize(
    ("rule", "states", "index"),
    [
        ("worst", (HIGH, LOW, MIDDLE), 1),
        ("median", (HIGH, LOW, MIDDLE), 2),
        ("median", (HIGH, LOW), 1),
        ("best", (HIGH, LOW, MIDDLE), 0),
        ("best", (FULL, LOW, MIDDLE), 2),
        ("worst", (FAILED, HIGH, LOW, LOW), 2),
        ("worst", (FULL, FAILED), 1),
        ("worst", (FULL, FULL), 0),
    ],
)
def test_the_rule_chooses_among_states_below_100_percent(
    rule: str, states: tuple[Graded, ...], index: int
):
    assert chosen(dict(enumerate(states)), rule, np.random.default_rng(0)) == index


def test_uniform_chooses_every_state_below_100_percent():
    states = dict(enumerate((FAILED, HIGH, LOW, FULL)))
    generator = np.random.default_rng(0)
    assert {chosen(states, "uniform", generator) for _ in range(50)} == {1, 2}


def test_a_snapshot_and_the_records_after_it_give_the_frontier_of_all_records():
    desk = Desk(config(rounds=3), ("a", "b", "c"))
    generator = np.random.default_rng(5)
    outcomes = (hitting(1), hitting(), FAILED, hitting(3, 9), None)
    for group in range(16):
        desk.ask()
        if group % 2:
            for each in (group - 1, group):
                desk.answer(each, *(outcomes[n] for n in generator.integers(0, 5, SIZE)))
    whole = desk.folded()
    for kept in range(len(desk.records) + 1):
        resumed = desk.resumed(kept)
        assert resumed.state == whole.state
        assert resumed.task(16) == whole.task(16)


def test_the_newest_tasks_that_continue_a_rollout_are_remembered_and_no_more():
    desk = Desk(config())
    task = continued(beginning(design("a"), config()), LOW, "g0/0").task()
    for number in range(MOST_RECORDED + 3):
        desk.frontier.fold(msgspec.structs.replace(task, task_id=f"t{number}"))
    remembered = desk.frontier.state.continued
    assert (remembered[0], remembered[-1]) == ("t3", f"t{MOST_RECORDED + 2}")
    assert len(remembered) == MOST_RECORDED


def test_instance_names_vary_if_configured():
    names = [f"design{n}" for n in range(30)]
    settings = HdlConfig(vary_instance=True)
    varied = with_hdl(config(), settings)
    assert {beginning(design(name), varied).instance for name in names} == {
        *("dut", "uut", "inst_top")
    }
    assert {beginning(design(name), config()).instance for name in names} == {"dut"}


def test_equal_states_are_one_task():
    task = Desk(config()).ask()
    one, other = continued(task, LOW, "g0/1"), continued(task, LOW, "g7/2")
    assert one.task_id == other.task_id
    assert continued(task, HIGH, "g0/0").task_id != one.task_id


def test_a_frontier_without_designs_is_refused():
    with pytest.raises(ValueError, match="at least one design of the training split"):
        Frontier(config(), [])
