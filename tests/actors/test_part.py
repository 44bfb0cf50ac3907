"""The status of a part as its callers see it."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
import ray

from actors.part import RemotePart
from protocols.errors import PartStartError

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


class Unfit:
    """An actor that cannot start."""

    def __init__(self) -> None:
        raise OSError("no such model")

    def run(self) -> None:
        """Never run."""


async def test_a_part_that_raises_in_its_start_is_not_waited_for():
    unfit = RemotePart("learner", cast("Any", ray.remote(max_restarts=-1)(Unfit)).remote())
    with pytest.raises(PartStartError, match=r"^learner: OSError: no such model$"):
        await unfit.run()


async def test_a_part_that_has_not_begun_is_starting_and_has_no_process():
    kind = cast("Any", ray.remote(Silent))
    waiting = await RemotePart("learner", kind.options(num_cpus=2).remote()).status()
    assert (waiting.pid, waiting.waits_for, waiting.last_error) == (None, "is starting", "")
    begun = kind.remote()
    await begun.begin.remote()
    failing = await RemotePart("learner", begun).status()
    assert (failing.pid, failing.waits_for) == (None, "does not answer")
    assert "broken" in failing.last_error
