"""The synthesizer of runs on designs: turns signals into candidates, by enumeration.

It uses no model, and answers so fast that signals do not expire and a pause need not keep them.
"""

from collections import Counter
from collections.abc import Sequence

from coevolve.environments.hdl.evolution.enumeration import Enumeration
from coevolve.environments.hdl.evolution.messages import DesignVariant, change_of
from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.paging import whole_topic
from coevolve.parts.record_handler import AnsweringPart
from coevolve.parts.status import StatusReporter
from protocols.config import RunConfig
from protocols.evolution import Candidate, Signal, SignalSettled
from protocols.interfaces import Reader, Store
from protocols.journal import Message
from protocols.tasks import body_of

NAME = "enumeration"
"""Name of the synthesizer in candidates."""


def synthesizer_part(
    config: RunConfig, store: Store, reader: Reader, enumeration: Enumeration
) -> AnsweringPart:
    """Return the synthesizer as a part."""
    standing = StatusReporter("synthesizer")
    return AnsweringPart(
        DesignSynthesizer(enumeration, reader, standing),
        standing,
        store=store,
        kind=Signal,
        awaited="signals",
        lease_s=config.store.lease_s,
    )


class DesignSynthesizer:
    """A `coevolve.parts.record_handler.Answerer` of signals."""

    def __init__(self, enumeration: Enumeration, reader: Reader, standing: StatusReporter) -> None:
        self._enumeration = enumeration
        self._reader = reader
        self._reporter = standing
        self._variants = Counter[str]()
        """Number of requested variants by design."""

    async def begin(self) -> None:
        """Count the variants requested before the start."""
        self._variants.clear()
        async for record in whole_topic(self._reader, topic_of(Candidate)):
            self._variants.update(_variants([decode_as(record, Candidate)]))

    async def answer(self, message: Message) -> Sequence[Message]:
        """Return the candidates of a signal, and the record that it is settled."""
        assert isinstance(message, Signal)
        candidates = await self._candidates(message)
        self._variants.update(_variants(candidates))
        return _answer(message, candidates)

    async def _candidates(self, signal: Signal) -> list[Candidate]:
        self._reporter.policy_version = max(self._reporter.policy_version, signal.policy_version)
        return [
            Candidate(
                candidate_id=f"{signal.signal_id}-{number}",
                signal_id=signal.signal_id,
                synthesizer=NAME,
                body=body_of(change),
                policy_version=signal.policy_version,
            )
            for number, change in enumerate(await self._enumeration.changes(signal, self._variants))
        ]


def _variants(candidates: Sequence[Candidate]) -> list[str]:
    """Return the design of each variant among the candidates."""
    changes = [change_of(each) for each in candidates]
    return [change.design for change in changes if isinstance(change, DesignVariant)]


def _answer(signal: Signal, candidates: Sequence[Candidate]) -> tuple[Message, ...]:
    settled = SignalSettled(
        signal_id=signal.signal_id,
        kind=signal.kind,
        outcome="synthesized" if candidates else "nothing_found",
        reason="",
        synthesizer=NAME,
        candidates=len(candidates),
        simulator_calls=0,
    )
    return *candidates, settled
