"""What the run's model calls have used, so that a budget need not read all calls again.

The launcher writes snapshots of it (`coevolve.runs.drive`); `coevolve.llm.recorded_calls.Ledger`
starts from them.
"""

from collections.abc import Sequence

import msgspec

from coevolve.journal.codec import topics_of
from coevolve.journal.snapshots import Snapshots
from coevolve.llm.usage import ModelUsage
from protocols.evolution import CallKind, ModelCall
from protocols.interfaces import Reader
from protocols.journal import Message

TOPICS = topics_of(ModelCall)


class CallTotals(msgspec.Struct):
    """The usage so far; a `coevolve.journal.snapshots.Piece`, and itself what it dumps."""

    teachers: dict[CallKind, ModelUsage] = msgspec.field(default_factory=dict[CallKind, ModelUsage])
    others: dict[CallKind, ModelUsage] = msgspec.field(default_factory=dict[CallKind, ModelUsage])
    """Usage of synthesis and of the judge, by the kind of signal."""

    @property
    def kind(self) -> type["CallTotals"]:
        """The type of the dumped state."""
        return CallTotals

    @property
    def settings(self) -> object:
        """No setting matters."""
        return None

    @property
    def pieces(self) -> Sequence[object]:
        """Return itself: it is a whole state."""
        return (self,)

    def dump(self) -> "CallTotals":
        """Return itself."""
        return self

    def load(self, state: "CallTotals") -> None:
        """Take up other totals."""
        self.teachers, self.others = state.teachers, state.others

    def fold(self, message: Message) -> None:
        """Add a call; ignores other message types."""
        match message:
            case ModelCall(purpose=purpose, kind=kind):
                usages = self.teachers if purpose == "teach" else self.others
                usage = usages.setdefault(kind, ModelUsage())
                usage.add(message.prompt_tokens, message.answer_tokens, message.cost_usd)
            case _:
                pass


def call_snapshots(reader: Reader) -> Snapshots[CallTotals]:
    """Return the snapshots of the usage."""
    return Snapshots(reader, "launcher's calls", TOPICS, CallTotals)
