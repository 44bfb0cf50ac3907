"""Says for which rank of the learner a start waits."""

from collections.abc import Callable
from dataclasses import dataclass

from coevolve.learning.sharded.rpc import Done, Enlistment, Member, Order, RankStarter


@dataclass(frozen=True)
class AnnouncedRanks:
    """A `RankStarter` that says for which rank it waits."""

    ranks: RankStarter
    waits_for: Callable[[str], None]
    """Takes in a few words what the learner waits for."""

    @property
    def address(self) -> str:
        return self.ranks.address

    def start(self, rank: int) -> Member:
        return _AnnouncedRank(rank, self.ranks.start(rank), self.waits_for)


@dataclass(frozen=True)
class _AnnouncedRank:
    rank: int
    member: Member
    waits_for: Callable[[str], None]

    def wait_until_started(self, wait_s: float) -> None:
        self.waits_for(
            f"its rank {self.rank} to start, at most {wait_s:.0f} s: for a node with room for it, "
            "and for the node's copy of the model"
        )
        self.member.wait_until_started(wait_s)
        self.waits_for("weights to be loaded")

    def call(self, message: Enlistment | Order) -> Done:
        return self.member.call(message)

    def dismiss(self) -> None:
        self.member.dismiss()
