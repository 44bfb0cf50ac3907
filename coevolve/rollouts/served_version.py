"""The policy version that a rollout worker's engine serves, for those who wait for one."""

import asyncio


class ServedVersion:
    """The version that was proven last; -1 before the first one."""

    def __init__(self) -> None:
        self.number = -1
        self._changed = asyncio.Condition()

    async def set(self, number: int) -> None:
        """Tell those who wait that the engine serves the version ``number``."""
        async with self._changed:
            self.number = number
            self._changed.notify_all()

    async def at_least(self, number: int) -> int:
        """Wait until the engine serves this version or a newer one; return the served one."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.number >= number)
            return self.number
