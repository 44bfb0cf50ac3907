"""Whether a run is paused; the journal stores this, so it survives a restart."""

from coevolve.journal.codec import topics_of
from protocols.control import RunContinued, RunPaused
from protocols.interfaces import Store


async def is_paused(store: Store) -> bool:
    """Return whether the latest of the two records is `RunPaused` and not `RunContinued`."""
    paused = await store.wait(topics_of(RunPaused), 0, 0.0)
    return paused > await store.wait(topics_of(RunContinued), 0, 0.0)
