"""`attach pause`, `resume`, `checkpoint` and `stop`: the commands that steer a run."""

import asyncio
import time
from pathlib import Path

import psutil

from coevolve.base.foreign import resolved
from coevolve.cli.attach_views.output import tell
from coevolve.cli.attach_views.subject import Subject
from coevolve.history.directory import RunDirectory
from coevolve.parts.pausing import is_paused
from protocols.control import RunContinued, RunPaused, StopRequested
from protocols.errors import RunError

STOP_WAIT_S = 180.0
LOOK_S = 0.2


async def pause(subject: Subject, *, as_json: bool) -> None:
    """Pause the run, so that it hands out no new work; print whether it was paused already."""
    await _set_paused(subject, paused=True, as_json=as_json)


async def resume(subject: Subject, *, as_json: bool) -> None:
    """Resume a paused run; print whether it was paused."""
    await _set_paused(subject, paused=False, as_json=as_json)


async def _set_paused(subject: Subject, *, paused: bool, as_json: bool) -> None:
    live = subject.actors()
    already = await is_paused(live.store) == paused
    if not already:
        kind = RunPaused if paused else RunContinued
        await live.append(kind(run_id=subject.run_id))
    if already:
        text = "is already paused" if paused else "is not paused"
    elif paused:
        text = (
            "paused; work in progress is finished, and no new work is handed out until "
            "`attach resume`"
        )
    else:
        text = "resumed"
    tree = {"run": subject.name, "paused": paused, "already": already}
    tell(tree, f"{subject.name}: {text}", as_json=as_json)


async def checkpoint(subject: Subject, to: Path | None, *, as_json: bool) -> None:
    """Copy the journal to ``to``; the default is a new folder beside the learner's checkpoints."""
    live = subject.actors()
    if to is None and subject.folder is None:
        raise RunError(
            f"{subject.name}: needs --to with a new folder on the machine of the run's store, "
            "because the run's folder is not on this machine"
        )
    name = time.strftime("journal-%Y%m%dT%H%M%SZ", time.gmtime())
    if subject.folder is not None:
        target = resolved(to or subject.folder / "checkpoints" / name)
    else:
        assert to is not None
        target = to
    started = time.monotonic()
    await live.store.checkpoint(target)
    seconds = time.monotonic() - started
    files = list(target.iterdir()) if target.is_dir() else []
    size = sum(file.stat().st_blocks * 512 for file in files)
    tree = {"path": str(target), "size_bytes": size, "wall_s": seconds}
    tell(tree, f"{target}: {size / 1e6:.1f} MB in {seconds:.2f} s", as_json=as_json)


async def stop(subject: Subject, *, as_json: bool) -> None:
    """Stop the run and wait until it has stopped; for a run on another machine, do not wait."""
    await subject.actors().append(StopRequested(run_id=subject.run_id))
    if subject.folder is not None:
        pid = RunDirectory(subject.folder).identity().pid
        wait_s = STOP_WAIT_S + subject.config.evaluator.at_stop_s
        deadline = time.monotonic() + wait_s
        while _alive(pid):
            if time.monotonic() > deadline:
                raise RunError(
                    f"{subject.name}: still running {wait_s:.0f} s after the request to stop"
                )
            await asyncio.sleep(LOOK_S)
    stopped = subject.folder is not None
    text = "stopped" if stopped else "will stop after the current step"
    tree = {"run": subject.name, "stopped": stopped}
    tell(tree, f"{subject.name}: {text}", as_json=as_json)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
