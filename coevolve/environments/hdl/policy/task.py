"""Tasks on designs: the body of a `protocols.tasks.Task` of this environment."""

from typing import Annotated

import msgspec

from coevolve.environments.hdl.policy.transition import DesignState
from coevolve.environments.hdl.simulate.messages import SubmissionForm
from protocols.tasks import Continued, Origin, Seeded, Split, Task, body_of


class DesignTask(msgspec.Struct, frozen=True, kw_only=True, tag="design"):
    """Write a better testbench for a design than the present one.

    This is LLM4Cov's memoryless transition (arXiv 2602.16953): the answer depends on nothing else.
    """

    design: str
    """Name of a folder in ``designs/``, or of an instance (`hdl.designs.renaming`)."""

    form: SubmissionForm
    instance: str
    """Name that the testbench gives the design's instance."""

    state: DesignState
    """The testbench to improve on, if any."""

    round: Annotated[int, msgspec.Meta(ge=0)]
    """Number of steps before this one; 0 is direct inference."""

    threshold: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
    """Minimum overall average of a successful step."""

    parent: str = ""
    """The rollout that made ``state``, as ``group_id/index``; empty for a blank state."""


class CoverageTask(DesignTask, frozen=True, kw_only=True):
    """A task on a design, with the fields of its `protocols.tasks.Task`."""

    task_id: str
    split: Split
    origin: Origin = Seeded(source="designs")

    @property
    def root(self) -> str:
        """Return the task that this chain of steps on the design started with."""
        return self.origin.root if isinstance(self.origin, Continued) else self.task_id

    def task(self) -> Task:
        """Return the task as a message of the journal and the loop."""
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
    """Return the task in a message's body. Raises msgspec.MsgspecError for another's body."""
    return _decoder.decode(body)


def coverage_task(task: Task) -> CoverageTask:
    """Return the task with its body decoded. Raises as `read_body`."""
    return CoverageTask(
        task_id=task.task_id,
        split=task.split,
        origin=task.origin,
        **msgspec.structs.asdict(read_body(task.body)),
    )
