"""A run's folder that grows by steps, and its copies, without a learner and without processes.

``python -m tests.copying RUN PLACE`` copies a run once.
"""

import asyncio
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.models.atomic_folder import folder_digest, write_folder
from coevolve.runs import starting
from coevolve.runs.copies.copier import RunCopier
from protocols.config import RunConfig, StoreConfig
from protocols.control import CopyFailed, RunCopied, RunStarted
from protocols.journal import Append, Message, Receipt
from protocols.learning import Checkpoint, PolicyVersion, StepReport


class GrowingRun:
    """A run with a real journal; close it before another process or a test opens its folder."""

    def __init__(self, directory: RunDirectory, place: str) -> None:
        self.directory = directory
        self.noted: list[Message] = []
        self._producer = uuid.uuid4().hex
        self._counter = 0
        self._news = asyncio.Event()
        self._journal = Journal.open(directory.store, map_size_bytes=1 << 28)
        self.store = LocalStore(self._journal)
        self.copier = RunCopier(
            configured(place), directory, store=self.store, reader=self.store, note=self._note
        )

    @classmethod
    async def begun(cls, path: Path, place: str) -> "GrowingRun":
        """Return a new run with its first record."""
        run = cls(starting.create(path, configured(place)), place)
        await run.add(RunStarted(run_id=run.directory.identity().run_id, config=""))
        return run

    async def add(self, *messages: Message) -> None:
        self._counter += 1
        receipt = Receipt(producer=self._producer, counter=self._counter)
        await self.store.append(Append(records=tuple(map(encode, messages)), receipt=receipt))

    async def take_step(
        self, step: int, *, kept: bool = True, replaces: Sequence[int] = (), size_bytes: int = 100
    ) -> None:
        """Add a step with its version and a checkpoint of ``size_bytes``."""
        version, checkpoint = f"versions/v_{step}", f"checkpoints/step_{step}"
        self._write(version, step, 50)
        await self.add(
            StepReport(step=step, groups=(), weights_digest="", groups_consumed=0, metrics={}),
            PolicyVersion(
                version=step, path=version, format="full", digest="", size_bytes=50, kept=False
            ),
        )
        self._write(checkpoint, step, size_bytes)
        digest = folder_digest(self.directory.path / checkpoint)
        await self.add(
            Checkpoint(
                step=step,
                path=checkpoint,
                digest=digest,
                size_bytes=size_bytes,
                kept=kept,
                replaces=tuple(replaces),
            )
        )

    async def copied(self) -> RunCopied | CopyFailed:
        """Copy the run and return the result."""
        await self.copier.copy()
        result = self.noted[-1]
        assert isinstance(result, RunCopied | CopyFailed)
        return result

    async def until_noted(self, count: int) -> None:
        """Wait for the result of copy ``count``."""
        async with asyncio.timeout(30):
            while len(self.noted) < count:
                self._news.clear()
                await self._news.wait()

    def close(self) -> None:
        self._journal.close()

    async def _note(self, message: Message) -> None:
        self.noted.append(message)
        self._news.set()
        await self.add(message)

    def _write(self, path: str, step: int, size_bytes: int) -> None:
        def write(partial: Path) -> None:
            with (partial / "weights").open("wb") as file:
                file.write(f"step {step}".encode())
                file.truncate(size_bytes)

        write_folder(self.directory.path / path, write)


def configured(place: str) -> RunConfig:
    return RunConfig(name="grown", store=StoreConfig(copies=place))


def main(path: str, place: str) -> None:
    """Copy a run once."""
    run = GrowingRun(RunDirectory(Path(path)), place)
    asyncio.run(run.copied())


if __name__ == "__main__":
    main(*sys.argv[1:])
