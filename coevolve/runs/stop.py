"""The request to stop a run."""

import asyncio
import time


class Stop:
    """A request to stop: first the newest version is scored, unless it is asked for once more."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self.at_once = asyncio.Event()
        """Set if nothing is to be scored any more."""

        self._until_s = 0.0

    def ask(self) -> None:
        """Ask the run to stop; change nothing if it was asked for before."""
        self._asked.set()

    def set(self) -> None:
        """Ask the run to stop; the second time, not to score first."""
        if self._asked.is_set():
            self.at_once.set()
        self._asked.set()

    def is_set(self) -> bool:
        """Return whether it has been asked for."""
        return self._asked.is_set()

    async def wait(self) -> None:
        """Return once it has been asked for."""
        await self._asked.wait()

    def scores(self, for_s: float) -> None:
        """Note that the run scores its newest version now, for so long at most."""
        self._until_s = time.monotonic() + for_s

    @property
    def scoring_s(self) -> float:
        """Return how long it may still score; 0 or less if it does not."""
        return 0.0 if self.at_once.is_set() else self._until_s - time.monotonic()
