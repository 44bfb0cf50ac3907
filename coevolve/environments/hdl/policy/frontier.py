"""The frontier: from which state of which design the next group of rollouts starts.

Guarantees:

- A chain of groups on a design lasts ``environment.rounds`` groups. When a group is complete, the
  next group starts from one of its testbenches; `chosen` selects it. Waiting states come before new
  chains.
- A chain starts with a design of the training split, from nothing (direct inference, LLM4Cov's
  s_0). Every design comes once before any comes again, in an order drawn anew each time.
- The state is a fold of the journal. Failed rollouts offer no state; a group of only failed
  rollouts ends its chain.
- The size of the state is bounded: by the designs, the groups in flight and `MOST_RECORDED`.

Source: LLM4Cov (arXiv 2602.16953), section 3, and its authors' online continuation, where the worst
sample of a group becomes the next round's state.
"""

from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np

from coevolve.environments.hdl.curation.states import merit, state_key
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.policy.prompts import instance_name
from coevolve.environments.hdl.policy.stages import stage_of, writer_of
from coevolve.environments.hdl.policy.task import CoverageTask, coverage_task
from coevolve.environments.hdl.policy.transition import Blank, Graded, coverage_of, graded_of
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.hdl.simulate.messages import COVERAGE_ALONE
from coevolve.environments.hdl.simulate.reward import RewardConfig
from coevolve.environments.sdk import Draw, topics_of
from protocols.config import RunConfig
from protocols.journal import Message
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest
from protocols.tasks import Continued, Task

TOPICS = topics_of(Task, RolloutRequest, Rollout, FailedRollout)

INSTANCE = "dut"

MOST_RECORDED = 10_000
"""Number of tasks that continue a rollout, the newest, of which it remembers that the journal has
them. An older one that comes up once more is recorded once more."""

_ORDER_STREAM = 211
_CHOICE_STREAM = 223


def beginning(design: Design, config: RunConfig) -> CoverageTask:
    """Return the task to write a design's first testbench."""
    varies = hdl_settings(config).vary_instance
    instance = instance_name(design.design_id, design.file.top) if varies else INSTANCE
    return CoverageTask(
        task_id=design.design_id,
        split=design.file.split,
        design=design.design_id,
        form=hdl_settings(config).form,
        instance=instance,
        state=Blank(),
        round=0,
        threshold=design.file.threshold,
    )


def continued(task: CoverageTask, state: Graded, parent: str) -> CoverageTask:
    """Return the task to improve on ``state``, which the rollout ``parent`` of ``task`` made."""
    return CoverageTask(
        task_id=f"{task.root}/{task.round + 1}/{state_key(task.design, state)[:16]}",
        split=task.split,
        design=task.design,
        form=task.form,
        instance=task.instance,
        state=state,
        round=task.round + 1,
        threshold=task.threshold,
        parent=parent,
        origin=Continued(root=task.root, rollout=parent),
    )


class OpenGroup(msgspec.Struct):
    """The results of a group so far."""

    task: CoverageTask
    size: int
    states: dict[int, Graded] = msgspec.field(default_factory=dict[int, Graded])
    answered: set[int] = msgspec.field(default_factory=set[int])


class FrontierState(msgspec.Struct):
    """What `Frontier` remembers, with the same names."""

    begun_designs: set[str]
    continued: list[str]
    read: CoverageTask | None
    groups: dict[str, OpenGroup]
    waiting: list[CoverageTask]
    numbered: int
    begun: int


class Frontier:
    """A `coevolve.curriculum.task_sampler.TaskSampler` of coverage tasks.

    It is a `coevolve.journal.snapshots.Piece`.
    """

    keeps = ()

    def __init__(self, config: RunConfig, designs: Sequence[Design]) -> None:
        """Sample tasks on ``designs``: at least one, all of the training split."""
        if not designs:
            raise ValueError("a frontier needs at least one design of the training split")
        self.topics: tuple[str, ...] = TOPICS
        self._config = config
        self._designs = {each.design_id: each for each in designs}
        self._begun_designs: set[str] = set()
        """Designs whose task is in the journal."""

        self._continued: dict[str, None] = {}
        """Ids of the newest tasks in the journal that continue a rollout, in order."""

        self._read: CoverageTask | None = None
        """The last task that came from the journal."""

        self._groups: dict[str, OpenGroup] = {}
        self._waiting: deque[CoverageTask] = deque()
        self._numbered = 0
        self._begun = 0

    @property
    def settings(self) -> object:
        settings, seed = hdl_settings(self._config), self._config.seed
        begun = [beginning(design, self._config) for _, design in sorted(self._designs.items())]
        return settings.rounds, settings.next_state, settings.reward, seed, begun

    @property
    def state(self) -> FrontierState:
        """Return what it remembers."""
        return FrontierState(
            begun_designs=self._begun_designs,
            continued=list(self._continued),
            read=self._read,
            groups=self._groups,
            waiting=list(self._waiting),
            numbered=self._numbered,
            begun=self._begun,
        )

    @state.setter
    def state(self, state: FrontierState) -> None:
        self._begun_designs = state.begun_designs
        self._continued, self._read = dict.fromkeys(state.continued), state.read
        self._groups, self._waiting = state.groups, deque(state.waiting)
        self._numbered, self._begun = state.numbered, state.begun

    def opening(self) -> Sequence[Message]:
        """Return no messages: a task enters the journal with its first group."""
        return ()

    def join(self) -> None:
        """Do nothing: a state waits once its group is complete."""

    def fold(self, message: Message) -> None:
        """Process a journal record; see `coevolve.curriculum.task_sampler.TaskSampler.fold`."""
        match message:
            case Task():
                self._note(coverage_task(message))
            case RolloutRequest(index=0) if message.group >= self._numbered:
                self._ask(message)
            case Rollout():
                self._gather(message, graded_of(message))
            case FailedRollout():
                self._gather(message, None)
            case _:
                pass

    def task(self, number: int) -> Draw:
        """Return the state that has waited the longest, or else a new task."""
        task = self._waiting[0] if self._waiting else self._beginning()
        stages = hdl_settings(self._config).stages
        return Draw(
            task_id=task.task_id,
            news=() if self._is_recorded(task.task_id) else (task.task(),),
            writer=writer_of(stages[stage_of(stages, number)], task.round),
        )

    def _beginning(self) -> CoverageTask:
        cycle, position = divmod(self._begun, len(self._designs))
        order = np.random.default_rng((self._config.seed, _ORDER_STREAM, cycle))
        names = sorted(self._designs)
        name = names[int(order.permutation(len(names))[position])]
        return beginning(self._designs[name], self._config)

    def _is_recorded(self, task_id: str) -> bool:
        """Return whether the journal is known to have a task."""
        return task_id in self._begun_designs or task_id in self._continued

    def _note(self, task: CoverageTask) -> None:
        self._read = task
        match task.origin:
            case Continued():
                self._continued[task.task_id] = None
                if len(self._continued) > MOST_RECORDED:
                    del self._continued[next(iter(self._continued))]
            case _:
                self._begun_designs.add(task.task_id)

    def _ask(self, request: RolloutRequest) -> None:
        self._numbered = request.group + 1
        task = self._requested_task(request.task_id)
        if task is not None:
            self._groups[request.group_id] = OpenGroup(task, request.group_size)

    def _requested_task(self, task_id: str) -> CoverageTask | None:
        """Return the task of a request; None if retention has evicted what its state came from."""
        if self._waiting and self._waiting[0].task_id == task_id:
            return self._waiting.popleft()
        if task_id in self._designs:
            self._begun += 1
            return beginning(self._designs[task_id], self._config)
        return self._read if self._read and self._read.task_id == task_id else None

    def _gather(self, message: Rollout | FailedRollout, state: Graded | None) -> None:
        group = self._groups.get(message.group_id)
        if group is None:
            return
        if state is not None:
            group.states[message.index] = state
        group.answered.add(message.index)
        if len(group.answered) == group.size:
            self._complete(message.group_id, self._groups.pop(message.group_id))

    def _complete(self, group_id: str, group: OpenGroup) -> None:
        task = group.task
        if task.round + 1 >= hdl_settings(self._config).rounds or not group.states:
            return
        number = int(group_id.removeprefix("g"))
        generator = np.random.default_rng((self._config.seed, _CHOICE_STREAM, number))
        settings = hdl_settings(self._config)
        index = chosen(group.states, settings.next_state, generator, settings.reward)
        self._waiting.append(continued(task, group.states[index], f"{group_id}/{index}"))


def chosen(
    states: dict[int, Graded],
    rule: str,
    generator: np.random.Generator,
    weights: RewardConfig = COVERAGE_ALONE,
) -> int:
    """Return the index of the state that the next group starts from.

    The choice is among states that earn less than 100 %: the ``worst``, the (lower) ``median`` of
    the different ones, the ``best`` or, for ``uniform``, a random one; the smallest index of
    equals. If there is none, it is the first failed state, or the first state if all are at 100 %.
    """
    covered = {index: coverage_of(state) for index, state in sorted(states.items())}
    failed = [index for index, coverage in covered.items() if coverage is None]
    shares = {
        index: merit(states[index], weights)
        for index, coverage in covered.items()
        if coverage is not None
    }
    able = [index for index, share in shares.items() if share < 1]
    if not able:
        return (failed or list(covered))[0]
    if rule == "uniform":
        return able[int(generator.integers(len(able)))]
    different = sorted({shares[index] for index in able})
    middle = different[(len(different) - 1) // 2]
    wanted = {"worst": different[0], "median": middle, "best": different[-1]}
    return next(index for index in able if shares[index] == wanted[rule])
