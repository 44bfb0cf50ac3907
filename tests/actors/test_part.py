"""The status of a part as its callers see it."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
import ray

from actors.part import RemotePart

pytestmark = pytest.mark.ray


@pytest.fixture(autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


class Silent:
    """An actor whose status fails."""

    def begin(self) -> None:
        """Return at once."""

    def status(self) -> None:
        """Fail."""
        raise OSError("broken")


async def test_a_part_that_has_not_begun_is_starting_and_has_no_process():
    kind = cast("Any", ray.remote(Silent))
    waiting = await RemotePart("learner", kind.options(num_cpus=2).remote()).status()
    assert (waiting.pid, waiting.waits_for, waiting.last_error) == (None, "is starting", "")
    begun = kind.remote()
    await begun.begin.remote()
    failing = await RemotePart("learner", begun).status()
    assert (failing.pid, failing.waits_for) == (None, "does not answer")
    assert "broken" in failing.last_error
