"""Tasks on designs: the body of a `protocols.tasks.Task` of this environment."""

from typing import Annotated

import msgspec

from coevolve.environments.hdl.policy.transition import DesignState
from coevolve.environments.hdl.simulate.messages import SubmissionForm
from protocols.tasks import Continued, Origin, Seeded, Split, Task, body_of


class DesignTask(msgspec.Struct, frozen=True, kw_only=True, tag="design"):
    """Write a better testbench for a design than the one there is.

    LLM4Cov's memoryless transition (arXiv 2602.16953): what is written depends on nothing but this.
    """

    design: str
    """Folder in ``designs/``, or a variant that the run made."""

    form: SubmissionForm
    instance: str
    """Name that the testbench gives the design's instance."""

    state: DesignState
    """What to improve on."""

    round: Annotated[int, msgspec.Meta(ge=0)]
    """Steps before this one; 0 is direct inference."""

    threshold: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
    """Overall average from which the step counts as a success."""

    parent: str = ""
    """The rollout that made ``state``, as ``group_id/index``; empty where none did."""

    goal: tuple[int, ...] = ()
    """Points of the design, by index, all of which have to be covered for success, whatever the
    threshold; empty where coverage as a whole is the task."""


class CoverageTask(DesignTask, frozen=True, kw_only=True):
    """A task on a design together with what the loop says of it."""

    task_id: str
    split: Split
    origin: Origin = Seeded(source="designs")

    @property
    def root(self) -> str:
        """Return the task that work on the design began with."""
        return self.origin.root if isinstance(self.origin, Continued) else self.task_id

    def task(self) -> Task:
        """Return what the journal and the loop know of it."""
        fields = {name: getattr(self, name) for name in DesignTask.__struct_fields__}
        return Task(
            task_id=self.task_id,
            split=self.split,
            origin=self.origin,
            skills=(self.design,),
            body=body_of(DesignTask(**fields)),
        )


_decoder = msgspec.msgpack.Decoder(DesignTask)


def read_body(body: msgspec.Raw) -> DesignTask:
    """Return the task behind a message's body. Raises msgspec.MsgspecError if it is another's."""
    return _decoder.decode(body)


def coverage_task(task: Task) -> CoverageTask:
    """Return the task with its body read; as `read_body`."""
    return CoverageTask(
        task_id=task.task_id,
        split=task.split,
        origin=task.origin,
        **msgspec.structs.asdict(read_body(task.body)),
    )
