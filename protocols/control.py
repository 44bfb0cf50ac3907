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
    """Every configured step was taken and the last version scored."""

    steps: int


class StopRequested(msgspec.Struct, frozen=True, kw_only=True, tag="stop_requested"):
    """Somebody who attached asks the run to stop cleanly."""

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
