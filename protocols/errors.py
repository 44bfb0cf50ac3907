"""Errors of infrastructure, settings and files; never of policies.

A policy's own faults (a call that does not parse, a wrong answer, an endless loop) are messages and
are graded. Each error here takes one string, because an exception with more constructor arguments
cannot be unpickled on the far side of a Ray call and arrives as another type.
"""

from typing import ClassVar, cast


class CoevolveError(Exception):
    """Base class of every error that this project raises on purpose."""

    is_permanent: ClassVar[bool] = False
    """Whether a restart of the part that raised it leads to the same error."""


class ConfigError(CoevolveError):
    """A run file does not match ``RunConfig``; the message lists every fault."""

    is_permanent = True


class DependencyError(CoevolveError):
    """The machine lacks what the configured run needs: a package, program, model, key or GPU."""

    is_permanent = True


class RunError(CoevolveError):
    """A run directory cannot be created, resumed or attached to."""


class UnableError(RunError):
    """A run cannot make a rollout, and a resumption meets the same cause."""


class LostError(RunError):
    """A run lost its Ray cluster, or a part that it needs; a resumption continues it."""


class TransferError(CoevolveError):
    """Files of the run cannot be copied between nodes, or the run's folder does not have them."""


class CopyError(CoevolveError):
    """The run cannot be copied to ``store.copies``, or a copy cannot be restored."""


class PartDiedError(CoevolveError):
    """The process of a part ended or cannot be reached; Ray restarts it."""


class PartRaisedError(PartDiedError):
    """A part raised an error that is not of this project; its process still lives."""


class PartStartError(PartDiedError):
    """A part's process raised an error in its start; Ray does not start it again."""


class JournalError(CoevolveError):
    """The journal cannot be opened, read or written.

    A write that got this error may have been stored; one that got a `RefusedError` was not.
    """


class JournalFormatError(JournalError):
    """The journal has another format version, or the file is not a complete journal."""

    is_permanent = True


class JournalDamagedError(JournalError):
    """Bytes of the journal's file are not what the journal wrote."""

    is_permanent = True


class JournalAccessError(JournalError):
    """This user may not read or write the files of the journal."""

    is_permanent = True


class JournalLockedError(JournalError):
    """Another process is writing this journal."""


class RefusedError(JournalError):
    """The journal refused a request and stored nothing of it."""


class JournalFullError(RefusedError):
    """The disk or the memory map is full; nothing of the refused transaction was stored."""

    is_permanent = True


class LeaseLostError(RefusedError):
    """Another member of the same consumer took over or finished the records."""


class SimulatorError(CoevolveError):
    """A simulator failed. This says nothing about the policy, so the rollout counts as failed."""


class SimulatorLostError(SimulatorError):
    """A simulator's process ended, maybe by the fault of others, so that its work is done again."""


class GeneratorError(CoevolveError):
    """The rollout engine failed, or serves other weights than those it was given."""


class DeliveryError(CoevolveError):
    """An engine does not serve the published policy version; training stops."""

    is_permanent = True


class EndpointError(CoevolveError):
    """A synthesizer's or teacher's model cannot be reached, refuses, or does not answer in time."""


class AnswerError(CoevolveError):
    """A synthesizer's model answered twice in a form that the request does not allow."""


class ContractError(CoevolveError):
    """An environment broke the rules of its interface; its code must be fixed."""

    is_permanent = True


class LeakError(ContractError):
    """A held-out task was about to be trained on or shown to a synthesizer."""


class OverBudgetError(CoevolveError):
    """A synthesizer's or teacher's next call may exceed the run's token or cost budget."""

    is_permanent = True


class LearnerError(CoevolveError):
    """The learner cannot make the next step, for example because a loss is not finite."""

    is_permanent = True


class RankError(CoevolveError):
    """A process of a sharded learner ended, does not answer, or raised an unexpected error."""


class CheckpointError(CoevolveError):
    """A checkpoint is missing, incomplete, or differs from the digest in the journal."""

    is_permanent = True


def first_error(error: BaseException) -> BaseException:
    """Return the error, or the first one of a group, in which groups may be."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
