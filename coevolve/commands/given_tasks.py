"""Says what becomes of the tasks of a file before a run is prepared for them."""

from collections.abc import Iterator, Sequence

from coevolve.environments.common_checks import half_width
from coevolve.environments.findings import counted
from coevolve.environments.tools.conformance import shared_content
from coevolve.environments.tools.interfaces import ToolSource
from coevolve.environments.tools.source import FixedSource, left_out_words
from protocols.tasks import Task

ENOUGH = 30
"""Tasks from which on a run can be expected to learn something that its score shows."""

BEYOND = {"seeds": "training", "held_out": "held-out"}
"""Setting that limits the tasks of a split -> the split."""


def about_tasks(
    source: ToolSource, train: Sequence[Task], held_out: Sequence[Task]
) -> Iterator[str]:
    """Yield a line on how many tasks there are, and one for each thing to know about them."""
    wide = half_width(len(held_out))
    yield (
        f"tasks: {len(train)} to train on, {len(held_out)} held out, so the 95 % interval of a "
        f"score is up to \N{PLUS-MINUS SIGN} {wide:.0f} points"
    )
    if isinstance(source, FixedSource):
        if source.left_out:
            named = left_out_words(source.left_out)
            yield f"{named}; correct its reference, its world or the tools"
        for setting, count in source.undrawn.items():
            if count:
                tasks = counted(count, f"{BEYOND[setting]} task")
                yield f"{tasks} more stay unused: raise environment.{setting} to use them"
    if shared := shared_content(train, held_out):
        yield f"{shared}: a score may show what was memorized; give them worlds of their own"
    if len(train) + len(held_out) < ENOUGH:
        yield f"these are few tasks: {ENOUGH} or more show whether it learns"
