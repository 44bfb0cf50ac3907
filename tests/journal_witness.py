"""What a journal must contain after its writers died, by the answers that they received."""

from collections import Counter
from pathlib import Path

from coevolve.journal.journal import Journal
from protocols.journal import Durability
from tests.journals import WAIT_S, take, taken


class Witness:
    """The answers that writers (`tests.journal_writer`) received before they died."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, int], str] = {}
        self.done: set[str] = set()
        self.finished: set[str] = set()

    def hear(self, lines: list[str]) -> None:
        for line in lines:
            match line.split():
                case ["sent", producer, counter, body]:
                    self.sent[producer, int(counter)] = body
                case ["done", producer, counter]:
                    self.done.add(self.sent.pop((producer, int(counter))))
                case ["finished", body]:
                    self.finished.add(body)
                case _:
                    pass

    def unanswered(self) -> list[tuple[str, int, str]]:
        return [(producer, counter, body) for (producer, counter), body in self.sent.items()]

    def check(
        self, folder: Path, durability: Durability = "process", boot: str | None = None
    ) -> None:
        """Raise AssertionError unless the journal keeps its promises."""
        journal = Journal.open(folder, durability=durability, boot=boot)
        statistics = journal.statistics().result(WAIT_S)
        with journal.snapshot() as state:
            tasks = state.scan("task", limit=1_000_000)
            rollouts = state.scan("rollout", limit=1_000_000)
            results = state.scan("result", limit=1_000_000)
            indexed = state.find("kind", "in", limit=1_000_000)
        left = taken(journal, take("rollout", member="check", incarnation=str(folder), limit=10**6))
        journal.close()
        written = Counter(stored.body.decode() for stored in tasks)
        effects = Counter(stored.body.decode() for stored in results)
        assert set(written.values()) <= {1}, "a write was carried out twice"
        assert written.keys() >= self.done, "an acknowledged record is lost"
        assert written.keys() <= self.done | set(self.sent.values())
        assert set(effects.values()) <= {1}, "an effect happened twice"
        assert effects.keys() >= self.finished, "an acknowledged effect is lost"
        held = {stored.body.split()[0].decode() for stored in rollouts}
        assert held >= written.keys() - effects.keys(), "unfinished work was evicted"
        unfinished = {n.body.split()[0].decode() for n in rollouts if n.sequence in set(left)}
        assert unfinished == written.keys() - effects.keys(), "work and effects disagree"
        assert indexed == rollouts
        kept = sorted(stored.sequence for stored in [*tasks, *rollouts, *results])
        evicted = len(written) - len(rollouts)
        assert len(set(kept)) == len(kept)
        assert len(kept) + evicted == statistics.last_sequence, "the sequence has a gap"
