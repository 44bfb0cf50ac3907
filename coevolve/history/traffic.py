"""What programs did at the policy's endpoint, in the newest rollouts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from coevolve.journal.codec import decode_as, topic_of
from protocols.evolution import GroupSummary
from protocols.interfaces import Reader

MAX_ROLLOUTS = 1000
MAX_RECORDS = 16_384
"""Newest records of the journal in which the groups are looked up."""

WORDS = {
    "branches": "further conversations by",
    "notes": "changed without effect",
    "refused": "refused",
    "ignored": "ignored fields",
    "retries": "sent again",
}
"""Kinds of what is counted -> what a user reads."""

ALARMING = 0.05
"""Share of sampled tokens in broken conversations above which a user is warned."""


@dataclass
class RecentTraffic:
    """Totals of the newest rollouts."""

    rollouts: int = 0
    conversations: int = 0
    sampled_tokens: int = 0
    broken_tokens: int = 0
    counts: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """By kind and name, the number of rollouts in which it happened."""

    def add(self, group: GroupSummary) -> None:
        """Count a group."""
        self.rollouts += group.rollouts
        self.conversations += group.rollouts + group.traffic.further
        self.sampled_tokens += group.sampled_tokens
        self.broken_tokens += group.traffic.broken_tokens
        for kind, names in group.traffic.rollouts.items():
            self.counts.setdefault(kind, Counter()).update(names)

    @property
    def broken_share(self) -> float:
        """Share of sampled tokens in conversations that an edited history broke off."""
        return self.broken_tokens / max(1, self.sampled_tokens)

    def lines(self) -> list[str]:
        """Return sentences for a user; empty if nothing happened."""
        return [*self._warning(), *self._shares()]

    def _warning(self) -> Iterator[str]:
        if self.broken_share > ALARMING:
            yield (
                f"WARNING: {self.broken_share:.0%} of the sampled tokens are in conversations that "
                "a client broke off with an edited history; let the program send back what it got"
            )

    def _shares(self) -> Iterator[str]:
        told = [
            f"{words}: " + ", ".join(f"{name} {each / self.rollouts:.1%}" for name, each in found)
            for kind, words in WORDS.items()
            if (found := self.counts.get(kind, Counter[str]()).most_common())
        ]
        if told:
            mean = self.conversations / self.rollouts
            yield (
                f"endpoint, shares of the last {self.rollouts:,} rollouts, with {mean:.2f} "
                f"conversations each; {'; '.join(told)}"
            )


async def recent_traffic(reader: Reader) -> RecentTraffic:
    """Return the totals of up to `MAX_ROLLOUTS` newest rollouts of finished groups."""
    topic = topic_of(GroupSummary)
    newest = await reader.last(topic)
    if newest is None:
        return RecentTraffic()
    records = await reader.scan(topic, max(0, newest.sequence - MAX_RECORDS), MAX_RECORDS)
    return traffic_of([decode_as(each, GroupSummary) for each in records])


def traffic_of(groups: Sequence[GroupSummary]) -> RecentTraffic:
    """Return the totals of the newest of these groups, which are in the order of the journal."""
    found = RecentTraffic()
    for group in _newest(groups):
        found.add(group)
    return found


def _newest(groups: Sequence[GroupSummary]) -> Iterable[GroupSummary]:
    rollouts = 0
    for group in reversed(groups):
        if rollouts and rollouts + group.rollouts > MAX_ROLLOUTS:
            return
        rollouts += group.rollouts
        yield group
