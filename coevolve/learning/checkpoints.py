"""Writes checkpoints as folders `checkpoints/step_N`, and removes old ones.

There are two kinds, with the same files. Every ``learner.checkpoint_every`` steps the learner
writes one that is kept until ``learner.keep_checkpoints`` newer ones exist. Every
``learner.recover_every`` steps it writes one for recovery, which the next checkpoint of either kind
replaces. A learner that was killed continues from the newest.

Guarantees:

- A checkpoint is complete on disk before its record enters the journal, and only the record makes
  it exist. The record also names the checkpoints that it replaces, and their folders are removed
  after that. What a killed learner leaves in between is removed at the next start.
- The newest checkpoint always stays. So do that of the best version by the guard's canaries, those
  of versions whose canaries are not scored yet, and those at which another number of processes took
  over, because a replay begins there anew.
- The trainer saves its state while the learner waits for its next groups, from its own memory,
  without a copy of it. So the next step waits until that is done; syncing the files to the disk,
  their digest, and their way to the run's node go on beside it. Once these delays exceed
  `MOST_DELAY` of the time, or while the checkpoint before is on its way, no checkpoint for recovery
  is begun.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from pathlib import Path

from coevolve.journal.mailbox import Appender
from coevolve.journal.snapshots import Followed
from coevolve.learning.opening import AnyTrainer
from coevolve.learning.recorded_checkpoints import checkpoint_snapshots
from coevolve.models.atomic_folder import PARTIAL
from coevolve.parts.files import names
from protocols.config import RunConfig
from protocols.errors import CoevolveError
from protocols.interfaces import Files, Reader
from protocols.learning import Checkpoint

MOST_DELAY = 0.05
"""Share of the time by which checkpoints for recovery may delay the steps."""

FOLDER = "checkpoints"
STEP = "step_"


def checkpoint_path(step: int) -> str:
    """Return a checkpoint's folder, relative to the run directory."""
    return f"{FOLDER}/{STEP}{step}"


class CheckpointWriter:
    """Writes a trainer's checkpoints, one at a time."""

    def __init__(
        self,
        config: RunConfig,
        files: Files,
        *,
        trainer: AnyTrainer,
        reader: Reader,
        append: Appender,
        needed: Callable[[], Collection[int]],
        last: int,
    ) -> None:
        """``needed`` returns the steps whose checkpoints have to stay; ``last`` is the newest."""
        self._settings = config.learner
        self._files = files
        self._trainer = trainer
        self._append = append
        self._needed = needed
        self._last = last
        self._recorded = Followed(checkpoint_snapshots(reader))
        self._writing: asyncio.Task[None] | None = None
        self._saved = asyncio.Event()
        """Set once the trainer has saved its state for the newest checkpoint."""

        self._started_s = time.monotonic()
        self._delayed_s = 0.0

    async def remove_leftovers(self) -> None:
        """Remove the folders that a killed learner wrote or replaced, and did not record."""
        recorded = await self._recorded.follow()
        known = {each.path for each in recorded.existing.values()}
        here = names(self._files.folder / FOLDER)
        for name in {*await self._files.names(FOLDER), *here}:
            path = f"{FOLDER}/{name}"
            if name.startswith((STEP, f"{PARTIAL}{STEP}")) and path not in known:
                await self._files.remove(path)

    def begin(self) -> None:
        """Begin to write a checkpoint of the present step, if one is due."""
        step = self._trainer.step
        if self._is_kept(step) or self._is_for_recovery(step):
            self._saved.clear()
            self._writing = asyncio.create_task(self._write(step, self._writing))

    async def release(self) -> float:
        """Wait until the trainer has saved its state; return the seconds of this delay.

        Before this, no method of the trainer may be called. Raises CheckpointError or TransferError
        if a checkpoint cannot be written.
        """
        started_s = time.monotonic()
        if self._writing is not None:
            saved = asyncio.create_task(self._saved.wait())
            await asyncio.wait((saved, self._writing), return_when=asyncio.FIRST_COMPLETED)
            saved.cancel()
            if self._writing.done():
                await self._finish()
        delayed_s = time.monotonic() - started_s
        self._delayed_s += delayed_s
        return delayed_s

    async def leave(self) -> None:
        """Write a checkpoint of the present step unless it has one. Raises as `release` does."""
        await self._finish()
        if self._trainer.step > self._last:
            await self._write(self._trainer.step)

    async def close(self) -> None:
        """Wait for the one that was begun, whatever becomes of it."""
        with suppress(CoevolveError):
            await self._finish()

    async def _finish(self) -> None:
        """Wait until the one that was begun is recorded. Raises as `release` does."""
        writing, self._writing = self._writing, None
        if writing is not None:
            await writing

    def _is_kept(self, step: int) -> bool:
        return step % self._settings.checkpoint_every == 0

    def _is_for_recovery(self, step: int) -> bool:
        """Return whether one for recovery is due after ``step``, and the delays allow it."""
        every = self._settings.recover_every
        most_s = MOST_DELAY * (time.monotonic() - self._started_s)
        is_free = self._writing is None or self._writing.done()
        return every > 0 and step % every == 0 and is_free and self._delayed_s <= most_s

    async def _write(self, step: int, before: Awaitable[None] | None = None) -> None:
        """Write a checkpoint after the one ``before``, record it, and remove what it replaces."""
        if before is not None:
            await before
        path = checkpoint_path(step)
        save = self._saving(asyncio.get_running_loop())
        digest, size_bytes = await asyncio.to_thread(self._files.assemble, path, save)
        recorded = await self._recorded.follow()
        checkpoint = Checkpoint(
            step=step,
            path=path,
            digest=digest,
            size_bytes=size_bytes,
            devices=self._settings.devices,
            kept=self._is_kept(step),
            replaces=recorded.replaced(
                step,
                kept=self._is_kept(step),
                keep=self._settings.keep_checkpoints,
                needed=self._needed(),
            ),
        )
        await self._append([checkpoint, *await self._recorded.due()])
        self._last = step
        for old in checkpoint.replaces:
            await self._files.remove(checkpoint_path(old))

    def _saving(self, loop: asyncio.AbstractEventLoop) -> Callable[[Path], None]:
        """Return the function that saves the trainer's state in another thread."""

        def save(partial: Path) -> None:
            self._trainer.save(partial)
            loop.call_soon_threadsafe(self._saved.set)

        return save
