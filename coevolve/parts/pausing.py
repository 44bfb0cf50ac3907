"""Whether a run is paused; the journal stores this, so it survives a restart."""

from protocols.interfaces import Store


async def is_paused(store: Store) -> bool:
    """Return whether the latest of the two records is `RunPaused` and not `RunContinued`."""
    paused = await store.wait(("run_paused",), 0, 0.0)
    return paused > await store.wait(("run_continued",), 0, 0.0)
