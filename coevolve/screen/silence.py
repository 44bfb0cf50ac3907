"""What to say if many steps brought no signal, so that the loop made tasks by free exploration."""

from collections.abc import Iterator

from coevolve.history.progress import Progress
from protocols.config import RunConfig
from protocols.journal import Message
from protocols.learning import StepReport

STEPS = 10
"""Steps of the loop without a signal after which it is said, once."""


def silence(config: RunConfig, message: Message, progress: Progress) -> str:
    """Return a sentence, with the remedies that the run file leaves; empty if all is well.

    It follows one step alone, number `STEPS` after the warm start, in a run that makes tasks.
    """
    if not (isinstance(message, StepReport) and message.stage == "loop" and config.synthesizes):
        return ""
    warm = progress.stages.last
    if message.step - warm != STEPS:
        return ""
    if progress.count("signal/") > progress.count("signal/cold_start"):
        return ""
    steps = f"{STEPS} steps{' after the warm start' * (warm > 0)}"
    remedies = ", or ".join(_remedies(config, progress.teaching.room))
    return f"no signal in {steps}, so no task was made of a weakness: {remedies}"


def _remedies(config: RunConfig, room: str) -> Iterator[str]:
    if room:
        yield room
    if config.signals.rules == "posterior" and "unsolved" not in config.signals.kinds:
        yield "add unsolved to signals.kinds, for what always fails"
    if not config.learner.warm_start.steps:
        yield "imitate references first (learner.warm_start.steps)"
    yield (
        f"raise rollout.group_size above {config.rollout.group_size}: a rule needs some 29 attempts"
    )
