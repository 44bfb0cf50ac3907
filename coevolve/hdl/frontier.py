"""The frontier: from which state of which design the next group of rollouts starts.

Promises:

- Every design of the training split is begun before any is begun again, in an order drawn anew each
  time. It is begun from nothing (direct inference, LLM4Cov's s_0).
- When a group is complete, one of its testbenches is what the next group on this design improves
  on, until ``hdl.rounds`` groups have worked on it; `chosen` says which one. States that wait come
  before designs that are to be begun.
- All of it is a fold of the journal. Void rollouts offer no state; a group of nothing else ends its
  design's turn.

Source: LLM4Cov (arXiv 2602.16953), section 3, and the online continuation of its authors, where the
worst sample of a group becomes the next round's state.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from coevolve.hdl.curation.selection import Draft, state_draft
from coevolve.hdl.curation.states import state_key
from coevolve.hdl.prompts import instance_name
from coevolve.hdl.stages import stage_of, writer_of
from coevolve.supply import Draw
from protocols.config import RunConfig
from protocols.designs import Design
from protocols.journal import Message
from protocols.rollouts import Rollout, RolloutRequest, VoidRollout
from protocols.tasks import CoverageTask
from protocols.transitions import Blank, Graded

TOPICS = ("coverage_task", "rollout_request", "rollout", "void_rollout")

INSTANCE = "dut"

_ORDER_STREAM = 211
_CHOICE_STREAM = 223


def beginning(design: Design, config: RunConfig) -> CoverageTask:
    """Return the task of writing a design's first testbench."""
    varies = config.hdl.vary_instance
    instance = instance_name(design.design_id, design.file.top) if varies else INSTANCE
    return CoverageTask(
        task_id=design.design_id,
        split=design.file.split,
        design=design.design_id,
        form=config.hdl.form,
        instance=instance,
        state=Blank(),
        round=0,
        threshold=design.file.threshold,
    )


def continued(task: CoverageTask, state: Graded, parent: str) -> CoverageTask:
    """Return the task of improving on ``state``, which a rollout ``parent`` of ``task`` made."""
    return CoverageTask(
        task_id=f"{task.design}/{task.round + 1}/{state_key(task.design, state)[:16]}",
        split=task.split,
        design=task.design,
        form=task.form,
        instance=task.instance,
        state=state,
        round=task.round + 1,
        threshold=task.threshold,
        parent=parent,
    )


@dataclass
class _Group:
    """What has come of a group so far."""

    task_id: str
    size: int
    states: dict[int, Graded] = field(default_factory=dict[int, Graded])
    answered: set[int] = field(default_factory=set[int])


class Frontier:
    """A `coevolve.supply.Supply` of coverage tasks."""

    def __init__(self, config: RunConfig, designs: Sequence[Design]) -> None:
        """Supply tasks on ``designs``, all of the training split, at least one."""
        if not designs:
            raise ValueError("a frontier needs at least one design of the training split")
        self.topics: tuple[str, ...] = TOPICS
        self._config = config
        self._designs = sorted(designs, key=lambda each: each.design_id)
        self._tasks: dict[str, CoverageTask] = {}
        self._groups: dict[str, _Group] = {}
        self._waiting: deque[CoverageTask] = deque()
        self._numbered = 0
        self._begun = 0

    def opening(self) -> Sequence[Message]:
        """Return nothing: a task enters the journal with its first group."""
        return ()

    def join(self) -> None:
        """Do nothing: states are ready as soon as their group is complete."""

    def fold(self, message: Message) -> None:
        """Take in the journal's next record; see `coevolve.supply.Supply.fold`."""
        match message:
            case CoverageTask(task_id=task_id):
                self._tasks.setdefault(task_id, message)
            case RolloutRequest(index=0) if message.group >= self._numbered:
                self._ask(message)
            case Rollout(graded=Graded() as state):
                self._gather(message, state)
            case Rollout() | VoidRollout():
                self._gather(message, None)
            case _:
                pass

    def task(self, number: int) -> Draw:
        """Return the state that has waited longest, else the next design from its beginning."""
        task = self._waiting[0] if self._waiting else beginning(self._next_design(), self._config)
        stages = self._config.hdl.stages
        return Draw(
            task_id=task.task_id,
            news=() if task.task_id in self._tasks else (task,),
            writer=writer_of(stages[stage_of(stages, number)], task.round),
        )

    def _next_design(self) -> Design:
        cycle, position = divmod(self._begun, len(self._designs))
        order = np.random.default_rng((self._config.seed, _ORDER_STREAM, cycle))
        return self._designs[int(order.permutation(len(self._designs))[position])]

    def _ask(self, request: RolloutRequest) -> None:
        self._numbered = request.group + 1
        self._groups[request.group_id] = _Group(request.task_id, request.group_size)
        if self._waiting and self._waiting[0].task_id == request.task_id:
            self._waiting.popleft()
        else:
            self._begun += 1

    def _gather(self, message: Rollout | VoidRollout, state: Graded | None) -> None:
        group = self._groups.get(message.group_id)
        if group is None:
            return
        if state is not None:
            group.states[message.index] = state
        group.answered.add(message.index)
        if len(group.answered) == group.size:
            self._complete(message.group_id, self._groups.pop(message.group_id))

    def _complete(self, group_id: str, group: _Group) -> None:
        task = self._tasks[group.task_id]
        if task.round + 1 >= self._config.hdl.rounds or not group.states:
            return
        number = int(group_id.removeprefix("g"))
        generator = np.random.default_rng((self._config.seed, _CHOICE_STREAM, number))
        index = chosen(group.states, self._config.hdl.next_state, generator)
        self._waiting.append(continued(task, group.states[index], f"{group_id}/{index}"))


def chosen(states: dict[int, Graded], rule: str, generator: np.random.Generator) -> int:
    """Return which of a group's states, by index, the next group starts from.

    Of those that ran, have coverage and are below 100 % the ``worst``, the (lower) ``median`` of
    the different coverages, the ``best`` or, ``uniform``, any; of equals the smallest index. Where
    there is none, the first that failed; where all are at 100 %, the first.
    """
    drafts = {index: state_draft(str(index), state) for index, state in sorted(states.items())}
    able = [index for index, draft in drafts.items() if _can_improve(draft)]
    if not able:
        failed = [index for index, draft in drafts.items() if draft.coverage is None]
        return (failed or list(drafts))[0]
    if rule == "uniform":
        return able[int(generator.integers(len(able)))]
    shares = sorted({drafts[index].coverage or 0 for index in able})
    wanted = {"worst": shares[0], "median": shares[(len(shares) - 1) // 2], "best": shares[-1]}
    return next(index for index in able if drafts[index].coverage == wanted[rule])


def _can_improve(draft: Draft) -> bool:
    return draft.ran and draft.coverage is not None and draft.coverage < 1
