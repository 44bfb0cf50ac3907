"""What the run's model calls have used, so that a budget need not read all calls again.

The launcher writes snapshots of it (`coevolve.runs.drive`); `coevolve.llm.recorded_calls.Ledger`
starts from them.
"""

import msgspec

from coevolve.journal.codec import topics_of
from coevolve.journal.snapshots import Snapshots, WholeState
from coevolve.llm.usage import ModelUsage
from protocols.evolution import CallKind, ModelCall
from protocols.interfaces import Reader
from protocols.journal import Message

TOPICS = topics_of(ModelCall)


class CallTotals(WholeState):
    """The usage so far; a `coevolve.journal.snapshots.Piece`."""

    teachers: dict[CallKind, ModelUsage] = msgspec.field(default_factory=dict[CallKind, ModelUsage])
    others: dict[CallKind, ModelUsage] = msgspec.field(default_factory=dict[CallKind, ModelUsage])
    """Usage of synthesis and of the judge, by the kind of signal."""

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
    return Snapshots(reader, "launcher's calls", TOPICS, CallTotals)
