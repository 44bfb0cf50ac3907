"""Failures of machines, of settings and of files; never of policies.

What a policy causes (a call that does not parse, a wrong answer, an endless loop) is a message and
is graded. Each error here takes one string, because an exception with more constructor arguments
cannot be unpickled on the far side of a Ray call and arrives as something else.
"""


class CoevolveError(Exception):
    """Every error that this project raises on purpose."""


class ConfigError(CoevolveError):
    """A run file does not say what ``RunConfig`` needs; the message lists every fault in it."""


class DependencyError(CoevolveError):
    """The machine lacks what the configured run needs: a package, program, model, key or GPU."""


class RunError(CoevolveError):
    """A run directory cannot be created, resumed or attached to."""


class PartDiedError(CoevolveError):
    """The process of a part ended, or cannot be reached; Ray starts it again."""


class JournalError(CoevolveError):
    """The journal cannot be opened, read or written."""


class JournalFormatError(JournalError):
    """The journal was written in another format version, or the file is not a whole journal."""


class JournalLockedError(JournalError):
    """Another process is writing this journal."""


class JournalFullError(JournalError):
    """The disk or the map is full; nothing of the refused transaction was kept."""


class LeaseLostError(JournalError):
    """The records were taken over, or finished, by another member of the same consumer."""


class SimulatorError(CoevolveError):
    """A simulator broke; nothing was learnt about the policy, so its rollout fails."""


class GeneratorError(CoevolveError):
    """The rollout engine broke, or serves weights other than those it was given."""


class DeliveryError(CoevolveError):
    """An engine does not serve the policy version that was published; nothing is trained on."""


class EndpointError(CoevolveError):
    """A synthesizing or teaching model cannot be reached, refuses, or does not answer in time."""


class AnswerError(CoevolveError):
    """A synthesizer's model answered twice with something other than what was asked for."""


class ContractError(CoevolveError):
    """An environment gave the loop what its interface rules out; its code needs to be mended."""


class LeakError(ContractError):
    """A held-out task was about to be trained on, or shown to a synthesizer."""


class OverBudgetError(CoevolveError):
    """The next call of a synthesizing or teaching model may exceed the run's tokens or money."""


class LearnerError(CoevolveError):
    """The learner cannot make the next step, for instance because a loss is not finite."""


class CheckpointError(CoevolveError):
    """A checkpoint is missing, incomplete, or differs from the digest in the journal."""
