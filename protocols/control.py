"""The run's own events, and what a live part tells whoever attaches."""

import msgspec


class RunStarted(msgspec.Struct, frozen=True, kw_only=True, tag="run_started"):
    """First record of every journal."""

    run_id: str
    config: str
    """The resolved config as JSON."""


class RunResumed(msgspec.Struct, frozen=True, kw_only=True, tag="run_resumed"):
    """The run was opened again."""

    run_id: str
    config: str


class RunFinished(msgspec.Struct, frozen=True, kw_only=True, tag="run_finished"):
    """Every configured step was taken and the last version scored.

    CPU seconds are those between the first rollout of the last start and the last step, on the
    launcher's machine; 0 and empty where they were not measured.
    """

    steps: int
    training_s: float = 0.0
    """Wall clock of the same span."""

    model_cpu_s: float = 0.0
    simulator_cpu_s: float = 0.0
    rest_cpu_s: dict[str, float] = {}
    """Everything else, by part; ``ray`` is what no part accounts for."""


class StopRequested(msgspec.Struct, frozen=True, kw_only=True, tag="stop_requested"):
    """Somebody who attached asks the run to stop cleanly."""

    run_id: str


class RunPaused(msgspec.Struct, frozen=True, kw_only=True, tag="run_paused"):
    """No further work is handed out until `RunContinued`; what is under way is finished."""

    run_id: str


class RunContinued(msgspec.Struct, frozen=True, kw_only=True, tag="run_continued"):
    """The pause is over."""

    run_id: str


class Stalled(msgspec.Struct, frozen=True, kw_only=True, tag="stalled"):
    """Nothing moved for ``quiet_s`` seconds; who waits for what."""

    quiet_s: float
    waiting: tuple[str, ...]
    """One sentence a part, for example ``learner waits for complete groups (5 of 8)``."""


class PartFailed(msgspec.Struct, frozen=True, kw_only=True, tag="part_failed"):
    """A part died or raised and was started again."""

    part: str
    reason: str


class PartStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What one live actor says of itself. Never a record: it is asked for."""

    part: str
    """The actor's name, for example ``rollout-0``."""

    pid: int
    waits_for: str
    """What it is doing or waiting for, in a few words."""

    since_s: float
    """Seconds since that changed."""

    mailbox: int
    """Records taken and not yet finished."""

    done: int
    """Records finished since the process started."""

    policy_version: int
    """The version it works with; -1 where it has none."""

    last_error: str
    """Empty where there was none since the process started."""
