"""What a learner says while its ranks start."""

from coevolve.learning.sharded.announced import AnnouncedRanks
from coevolve.learning.sharded.rpc import Done, Enlistment, Order


class Rank:
    """A rank that notes for how long it was awaited."""

    def __init__(self, said: list[str]) -> None:
        self._said = said

    def wait_until_started(self, wait_s: float) -> None:
        self._said.append(f"awaited {wait_s:g} s")

    def call(self, message: Enlistment | Order) -> Done:
        return Done(cpu_s=2.0)

    def dismiss(self) -> None:
        self._said.append("dismissed")


class Ranks:
    address = "10.0.0.1"

    def __init__(self, said: list[str]) -> None:
        self._said = said

    def start(self, rank: int) -> Rank:
        return Rank(self._said)


def test_the_rank_that_is_awaited_is_named_until_it_has_started():
    said: list[str] = []
    ranks = AnnouncedRanks(Ranks(said), said.append)
    member = ranks.start(2)
    member.wait_until_started(300.0)
    assert said[0].startswith("its rank 2 to start, at most 300 s: for a node with room")
    assert said[1:] == ["awaited 300 s", "weights to be loaded"]
    assert member.call(Order(method="save", arguments=())) == Done(cpu_s=2.0)
    member.dismiss()
    assert (said[-1], ranks.address) == ("dismissed", "10.0.0.1")
