"""Whether a run is paused: a matter of its journal, so that a restart does not forget it."""

from protocols.interfaces import Store


async def is_paused(store: Store) -> bool:
    """Return whether the last word on it was `RunPaused`, not `RunContinued`."""
    paused = await store.wait(("run_paused",), 0, 0.0)
    return paused > await store.wait(("run_continued",), 0, 0.0)
