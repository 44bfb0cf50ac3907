"""The status of a part as its callers see it."""

import asyncio
import time
from pathlib import Path
from typing import Any, cast

import pytest
import ray

from actors.part import RemotePart
from protocols.control import PartStatus
from protocols.errors import PartStartError
from tests.screens import status


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


class Late:
    """Stands for an actor that answers when it is told to."""

    def __init__(self) -> None:
        self.status = self
        self.asked: asyncio.Future[PartStatus] | None = None

    def remote(self) -> asyncio.Future[PartStatus]:
        """Return the answer to come."""
        self.asked = asyncio.get_running_loop().create_future()
        return self.asked


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
async def test_a_part_that_raises_in_its_start_is_not_waited_for():
    unfit = RemotePart("learner", cast("Any", ray.remote(max_restarts=-1)(Unfit)).remote())
    with pytest.raises(PartStartError, match=r"^learner: OSError: no such model$"):
        await unfit.run()


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
async def test_a_part_that_has_not_begun_is_starting_and_has_no_process():
    kind = cast("Any", ray.remote(Silent))
    waiting = await RemotePart("learner", kind.options(num_cpus=3).remote()).status()
    assert (waiting.pid, waiting.waits_for, waiting.last_error) == (None, "is starting", "")
    begun = kind.remote()
    await begun.begin.remote()
    failing = await RemotePart("learner", begun).status()
    assert (failing.pid, failing.waits_for) == (None, "does not answer")
    assert "broken" in failing.last_error


class Restarted:
    """An actor whose constructor, from the second time on, takes long."""

    def __init__(self, begun: Path) -> None:
        if begun.exists():
            time.sleep(20)
        begun.touch()

    def begin(self) -> None:
        """Return at once."""

    def status(self) -> None:
        """Answer too late: the process is killed before, but some time after it was asked to be."""
        time.sleep(60)


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
async def test_a_part_whose_process_was_killed_is_starting_again(tmp_path: Path):
    actor = cast("Any", ray.remote(max_restarts=-1)(Restarted)).remote(tmp_path / "begun")
    await actor.begin.remote()
    part = RemotePart("learner", actor)
    await part.renew()
    found = await part.status()
    assert (found.pid, found.waits_for, found.last_error) == (None, "is starting again", "")


async def test_who_looks_at_a_part_can_be_cancelled_at_the_moment_of_its_answer():
    late = Late()
    part = RemotePart("learner", late)

    async def look_for_ever() -> None:
        while True:
            await part.status()

    looking = asyncio.create_task(look_for_ever())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert late.asked is not None
    late.asked.set_result(status("learner", "complete groups"))
    looking.cancel()
    await asyncio.wait((looking,), timeout=2)
    assert looking.cancelled()
