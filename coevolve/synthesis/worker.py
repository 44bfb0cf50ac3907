"""The synthesizer part: turns signals into candidates, with the current model.

Guarantees: one transaction finishes a signal and adds its results, so each signal is settled
exactly once even if processes are killed. A model's calls are recorded before their answers are
used, so a restarted signal pays only for new calls. If a model fails, all signals wait until it
answers again, those in work included (`coevolve.synthesis.serving`); meanwhile none expires, unless
more wait than ``synthesizer.waiting_capacity``: then the oldest do. A signal at which a model fails
that answers others, or that kills the process, is a dead letter after some attempts
(`coevolve.parts.attempts`).
Another model takes over with the next signal, and the old one finishes its current signals. During
a pause of the run no signal is started; nothing else changes.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence

import structlog

from coevolve.journal.codec import decode_as, topic_of, topics_of
from coevolve.journal.mailbox import GATHER_S, Mailbox
from coevolve.parts.attempts import KILLED, Attempts, WorkItem, reason_of
from coevolve.parts.pausing import is_paused
from coevolve.parts.status import StatusReporter
from coevolve.parts.stopping import unless_stopped
from coevolve.synthesis.arms import ArmBriefs
from coevolve.synthesis.backlog import Backlog, Waiting
from coevolve.synthesis.briefs import BriefContext
from coevolve.synthesis.serving import FIRST_PAUSE_S, NOT_THE_MODELS, OpenModel, ServedModel
from coevolve.synthesis.settling import SynthesisWorker, without_synthesis
from protocols.config import RunConfig
from protocols.control import PartStatus, RunContinued, RunPaused
from protocols.errors import JournalError, LeaseLostError
from protocols.evolution import (
    ModelAnswers,
    ModelRests,
    Signal,
    SwapRefused,
    SwapRequested,
    SynthesizerSwapped,
)
from protocols.interfaces import Reader, Store
from protocols.journal import Message
from protocols.learning import PolicyVersion
from protocols.synthesizers import SynthesizerModel

TAKE_LIMIT = 1000

log = structlog.get_logger()


class SynthesizerWorker:
    """A `protocols.interfaces.Part`: one model, and several signals at a time."""

    def __init__(
        self,
        config: RunConfig,
        *,
        store: Store,
        reader: Reader,
        takes: Sequence[type[Message]],
        open_model: OpenModel,
        context: BriefContext,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        """Prepare the part.

        ``context`` adds the environment's data to briefs; ``first_pause_s`` is the first pause
        after a model's failure.
        """
        self._topics = topics_of(*takes)
        self._config = config
        self._store = store
        self._reader = reader
        self._open_model = open_model
        self._context = context
        self._first_pause_s = first_pause_s
        self._reporter = StatusReporter("synthesizer")
        self._stopping = asyncio.Event()
        self._mailbox: Mailbox | None = None
        self._models: list[ServedModel] = []

    async def run(self) -> None:
        """Answer signals until stopped; all state comes from the journal."""
        self._mailbox = Mailbox(
            self._store,
            consumer="synthesizer",
            topics=self._topics,
            member="synthesizer",
            lease_s=self._config.store.lease_s,
            gather_s=GATHER_S,
        )
        session = _Session(
            self._config,
            mailbox=self._mailbox,
            store=self._store,
            reader=self._reader,
            briefs=ArmBriefs(self._config, reader=self._reader, context=self._context),
            standing=self._reporter,
            serve=self._serve,
        )
        try:
            await unless_stopped(self._stopping, session.work())
            await session.release()
        finally:
            for model in self._models:
                await model.close()

    async def stop(self) -> None:
        """Drop current signals (they stay unfinished) and make ``run`` return."""
        self._stopping.set()

    def status(self) -> PartStatus:
        """Return the part's current status."""
        return self._reporter.report(len(self._mailbox.held) if self._mailbox else 0)

    def cpu_s(self) -> float:
        """Return the CPU seconds of all models that were opened so far."""
        return sum(model.cpu_s() for model in self._models)

    def _serve(self, model: SynthesizerModel) -> ServedModel:
        assert self._mailbox is not None
        served = ServedModel(
            model,
            self._open_model,
            self._reporter,
            self._mailbox.append,
            longest_pause_s=self._config.synthesizer.longest_rest_s,
            first_pause_s=self._first_pause_s,
        )
        self._models.append(served)
        return served


class _Session:
    """The part's state during one call of ``run``, with one incarnation of the mailbox."""

    def __init__(
        self,
        config: RunConfig,
        *,
        mailbox: Mailbox,
        store: Store,
        reader: Reader,
        briefs: ArmBriefs,
        standing: StatusReporter,
        serve: Callable[[SynthesizerModel], ServedModel],
    ) -> None:
        self._config = config.synthesizer
        self._mailbox = mailbox
        self._store = store
        self._reader = reader
        self._reporter = standing
        self._serve = serve
        self._worker = SynthesisWorker(
            config, reader=reader, append=mailbox.append, briefs=briefs, standing=standing
        )
        self._attempts = Attempts(mailbox, config, reader)
        self._backlog = Backlog()
        self._swaps: asyncio.Queue[tuple[int, SwapRequested]] = asyncio.Queue()
        self._changed = asyncio.Event()
        self._swapped = asyncio.Event()
        self._in_progress = 0
        self._alone = False
        """Whether the signal in work is one that may have killed an earlier process."""

        self._paused = False

    async def work(self) -> None:
        """Rebuild the state from the journal, then work forever."""
        await self._mailbox.take_seat()
        self._served = self._serve(await self._model())
        self._served.rests = await self._rested()
        self._paused = await is_paused(self._store)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._receive())
            group.create_task(self._serve_swaps())
            group.create_task(self._hand_out(group))

    async def release(self) -> None:
        """Take back the attempts that a clean stop ends."""
        await self._attempts.release()

    async def _receive(self) -> None:
        while True:
            deliveries = await self._mailbox.take(TAKE_LIMIT)
            pauses = [each.sequence for each in deliveries if self._is_pause(each.message)]
            items = await self._attempts.items(
                each for each in deliveries if each.sequence not in pauses
            )
            await self._attempts.recall(items)
            for item in items:
                self._enqueue(item)
            if pauses:
                self._paused = await is_paused(self._store)
                await self._mailbox.complete(pauses)
            await self._settle_excess()
            await self._settle_expired()
            self._reporter.waits_for(self._activity())
            self._changed.set()

    def _is_pause(self, message: Message) -> bool:
        return isinstance(message, RunPaused | RunContinued)

    def _enqueue(self, unit: WorkItem) -> None:
        match unit.message:
            case Signal() as signal:
                self._backlog.add(Waiting(unit=unit, signal=signal))
            case SwapRequested() as request:
                self._swaps.put_nowait((unit.sequence, request))
            case other:
                raise TypeError(f"the synthesizer does not take {type(other).__name__}")

    async def _hand_out(self, group: asyncio.TaskGroup) -> None:
        """Start signals, as many at a time as the model may process."""
        while True:
            self._changed.clear()
            self._reporter.waits_for(self._activity())
            if not self._served.trusted and (self._may_begin() or not self._served.name):
                await self._wait_for_model()
            elif self._may_begin():
                await self._settle_expired()
                if self._may_begin():
                    self._in_progress += 1
                    waiting = self._backlog.take_next()
                    self._alone = self._is_suspect(waiting)
                    group.create_task(self._answer(waiting))
            else:
                await self._changed.wait()

    def _may_begin(self) -> bool:
        if not len(self._backlog) or self._paused or self._alone:
            return False
        if self._is_suspect(self._backlog.first()):
            return not self._in_progress
        return self._in_progress < self._served.at_most(self._config.concurrent)

    def _is_suspect(self, waiting: Waiting) -> bool:
        return self._attempts.count(waiting.unit) > 0

    def _activity(self) -> str:
        waiting = f"{self._in_progress} signals in work, {len(self._backlog)} wait"
        if self._paused:
            return f"the run to be continued ({waiting})"
        if not self._served.trusted:
            return f"the model to answer ({waiting})"
        return waiting if self._in_progress or self._backlog else "signals"

    async def _wait_for_model(self) -> None:
        """Return when the model answers, or when another one has taken over."""
        self._swapped.clear()
        await unless_stopped(self._swapped, self._served.restore())

    async def _answer(self, waiting: Waiting) -> None:
        try:
            outputs = await self._outcome(waiting)
            if outputs is None:
                failures = waiting.failures + 1
                self._backlog.add(dataclasses.replace(waiting, failures=failures))
            else:
                await self._finish(waiting, outputs)
        finally:
            self._in_progress -= 1
            self._alone = False
            self._changed.set()

    async def _outcome(self, waiting: Waiting) -> Sequence[Message] | None:
        """Return what settles a signal; None if it waits for another attempt."""
        unit, served, reason = waiting.unit, self._served, KILLED
        if not self._attempts.is_spent(unit):
            began_after = served.failures
            await self._attempts.begin(unit)
            try:
                return self._attempts.finished(unit, await self._worker.settle(waiting, served))
            except NOT_THE_MODELS:
                raise
            except Exception as error:  # noqa: BLE001 - the boundary round one signal
                # The model is to blame unless it has just answered another signal.
                self._attempts.failed(unit)
                is_models = served.failures > 0
                await served.failed(error, began_after)
                reason = reason_of(error)
            if is_models:
                await self._attempts.put_back(unit)
            if not self._attempts.is_spent(unit):
                return None
        end = self._worker.failure(waiting, served.name, reason)
        return self._attempts.dead_letter(unit, reason, (end,))

    async def _settle_expired(self) -> None:
        """Settle signals that waited too long, measured by the newest policy version.

        None expires while the model does not answer.
        """
        newest = await self._reader.last(topic_of(PolicyVersion))
        if newest is None:
            return
        version = decode_as(newest, PolicyVersion).version
        self._reporter.policy_version = version
        if self._served.failures:
            return
        expired = self._backlog.take_expired(version, self._config.expire_versions)
        await self._expire(expired, f"the policy is at version {version}")

    async def _settle_excess(self) -> None:
        """Settle the oldest of more signals than may wait."""
        most = self._config.waiting_capacity
        excess = self._backlog.take_excess(most)
        if excess:
            log.warning("signals_expired", signals=len(excess), most=most)
        reason = f"synthesizer.waiting_capacity = {most} newer or better signals wait"
        await self._expire(excess, reason)

    async def _expire(self, expired: Sequence[Waiting], reason: str) -> None:
        name = self._served.name
        await asyncio.gather(
            *(
                self._finish(
                    each,
                    self._attempts.skipped(
                        each.unit, reason, (without_synthesis(each, "expired", reason, name),)
                    ),
                )
                for each in expired
            )
        )

    async def _finish(self, waiting: Waiting, outputs: Sequence[Message]) -> None:
        await self._complete(waiting.sequence, outputs, waiting.signal.signal_id)
        self._attempts.forget((waiting.sequence,))

    async def _complete(self, sequence: int, outputs: Sequence[Message], what: str) -> bool:
        """Finish a record; return False if another incarnation has taken it over."""
        try:
            await self._mailbox.complete((sequence,), outputs)
        except LeaseLostError as error:
            log.warning("synthesis_dropped", what=what, reason=str(error))
            return False
        self._reporter.done += 1
        return True

    async def _serve_swaps(self) -> None:
        while True:
            sequence, request = await self._swaps.get()
            fresh = self._serve(request.model)
            try:
                await fresh.check()
            except JournalError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a model's server does
                reason = reason_of(error)
                log.warning("swap_refused", request=request.request_id, reason=reason)
                refusal = SwapRefused(request_id=request.request_id, reason=reason)
                await self._complete(sequence, (refusal,), request.request_id)
                await fresh.close()
            else:
                await self._swap(sequence, request, fresh)

    async def _swap(self, sequence: int, request: SwapRequested, fresh: ServedModel) -> None:
        """Let ``fresh`` take over as soon as the journal has recorded it."""
        swapped = SynthesizerSwapped(
            request_id=request.request_id, model=request.model, synthesizer=fresh.name
        )
        if not await self._complete(sequence, (swapped,), request.request_id):
            await fresh.close()
            return
        log.info("synthesizer_swapped", synthesizer=fresh.name, request=request.request_id)
        old, self._served = self._served, fresh
        self._swapped.set()
        self._changed.set()
        await old.retire()

    async def _model(self) -> SynthesizerModel:
        """Return the last swapped-in model, or the configured one."""
        swapped = await self._reader.last(topic_of(SynthesizerSwapped))
        return decode_as(swapped, SynthesizerSwapped).model if swapped else self._config.model

    async def _rested(self) -> bool:
        """Return whether the journal says that the model rests."""
        rests, *others = [
            record.sequence if (record := await self._reader.last(topic)) else 0
            for topic in topics_of(ModelRests, ModelAnswers, SynthesizerSwapped)
        ]
        return rests > max(others)
