"""The synthesizer part: turns signals into candidates, with the current model.

Guarantees: one transaction finishes a signal and adds its results, so each signal is settled
exactly once even if processes are killed. A model's calls are recorded before their answers are
used, so a restarted signal pays only for new calls. If a model fails, all signals wait until it
answers again, those in work included (`coevolve.synthesis.serving`); meanwhile none expires, unless
more wait than ``synthesizer.waiting_capacity``: then the oldest do. A signal at which a model fails
that answers others, or that kills the process, is a dead letter after some attempts
(`coevolve.parts.attempts`). Another model takes over with the next signal, and the old one finishes
its current signals. During a pause of the run no signal is started; nothing else changes.

It has no `coevolve.parts.worker.Dispatcher`: it holds all signals, since the best is worked on
first, and a failed signal waits behind the others until the model answers again.
"""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence

import structlog

from coevolve.journal.codec import decode_as, topic_of, topics_of
from coevolve.parts.attempts import KILLED, WorkItem, reason_of
from coevolve.parts.context import PartContext
from coevolve.parts.pausing import is_paused
from coevolve.parts.stopping import unless_stopped
from coevolve.parts.worker import Worker
from coevolve.synthesis.arms import ArmBriefs
from coevolve.synthesis.backlog import Backlog, Waiting
from coevolve.synthesis.briefs import BriefContext
from coevolve.synthesis.serving import FIRST_PAUSE_S, NOT_THE_MODELS, OpenModel, ServedModel
from coevolve.synthesis.settling import SynthesisWorker, without_synthesis
from protocols.control import RunContinued, RunPaused
from protocols.errors import JournalError
from protocols.evolution import (
    ModelAnswers,
    ModelRests,
    Signal,
    SwapRefused,
    SwapRequested,
    SynthesizerSwapped,
)
from protocols.journal import Message
from protocols.learning import PolicyVersion
from protocols.synthesizers import SynthesizerModel

log = structlog.get_logger()


class SynthesizerWorker:
    """A `protocols.interfaces.Part`: one model, and several signals at a time."""

    _served: ServedModel
    _synthesis: SynthesisWorker

    def __init__(
        self,
        context: PartContext,
        *,
        open_model: OpenModel,
        told: BriefContext,
        cells: Mapping[str, str] | None = None,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        """Prepare the part.

        ``told`` adds the environment's data to briefs; ``cells`` are the environment's;
        ``first_pause_s`` is the first pause after a model's failure.
        """
        self._run = context.config
        self._config = self._run.synthesizer
        self._store = context.store
        self._reader = context.reader
        self._open_model = open_model
        self._told = told
        self._cells = cells or {}
        self._first_pause_s = first_pause_s
        self._worker = Worker("synthesizer", context)
        self.stop, self.status = self._worker.stop, self._worker.status
        self._models: list[ServedModel] = []
        self._changed = asyncio.Event()
        self._swapped = asyncio.Event()
        self._forget()

    def _forget(self) -> None:
        """Drop all state that is not in the journal."""
        self._backlog = Backlog()
        self._swaps: asyncio.Queue[tuple[WorkItem, SwapRequested]] = asyncio.Queue()
        self._in_progress = 0
        self._alone = False
        """Whether the signal in work is one that may have killed an earlier process."""

        self._paused = False

    async def run(self) -> None:
        """Answer signals until stopped; all state comes from the journal."""
        try:
            await self._worker.run(self._work)
        finally:
            for model in self._models:
                await model.close()

    def cpu_s(self) -> float:
        return sum(model.cpu_s() for model in self._models)

    async def _work(self) -> None:
        """Rebuild the state from the journal, then work forever."""
        await self._worker.mailbox.take_seat()
        self._forget()
        self._synthesis = SynthesisWorker(
            self._run,
            reader=self._reader,
            append=self._worker.mailbox.append,
            briefs=ArmBriefs(self._run, reader=self._reader, context=self._told, cells=self._cells),
            standing=self._worker.reporter,
        )
        self._served = self._serve(await self._model())
        self._served.rests = await self._rested()
        self._paused = await is_paused(self._store)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._receive())
            group.create_task(self._serve_swaps())
            group.create_task(self._hand_out(group))

    def _serve(self, model: SynthesizerModel) -> ServedModel:
        served = ServedModel(
            model,
            self._open_model,
            self._worker.reporter,
            self._worker.mailbox.append,
            longest_pause_s=self._config.longest_rest_s,
            first_pause_s=self._first_pause_s,
        )
        self._models.append(served)
        return served

    async def _receive(self) -> None:
        attempts = self._worker.attempts
        while True:
            taken = await self._worker.mailbox.take(self._worker.pace.take_limit)
            items = await attempts.items(taken)
            await attempts.recall(items)
            for item in items:
                await self._accept(item)
            await self._settle_excess()
            await self._settle_expired()
            self._worker.reporter.waits_for(self._activity())
            self._changed.set()

    async def _accept(self, item: WorkItem) -> None:
        match item.message:
            case Signal() as signal:
                self._backlog.add(Waiting(item=item, signal=signal))
            case SwapRequested() as request:
                self._swaps.put_nowait((item, request))
            case RunPaused() | RunContinued():
                self._paused = await is_paused(self._store)
                await self._worker.mailbox.complete((item.sequence,), gather_s=0.0)
            case other:
                raise TypeError(f"the synthesizer does not take {type(other).__name__}")

    async def _hand_out(self, group: asyncio.TaskGroup) -> None:
        """Start signals, as many at a time as the model may process."""
        while True:
            self._changed.clear()
            self._worker.reporter.waits_for(self._activity())
            if not self._served.trusted and (self._may_begin() or not self._served.name):
                await self._wait_for_model()
            elif self._may_begin():
                await self._settle_expired()
                if self._may_begin():
                    self._in_progress += 1
                    waiting = self._backlog.take_next()
                    self._alone = self._was_attempted_before(waiting)
                    group.create_task(self._answer(waiting))
            else:
                await self._changed.wait()

    def _may_begin(self) -> bool:
        if not len(self._backlog) or self._paused or self._alone:
            return False
        if self._was_attempted_before(self._backlog.first()):
            return not self._in_progress
        return self._in_progress < self._served.at_most(self._config.concurrent)

    def _was_attempted_before(self, waiting: Waiting) -> bool:
        return self._worker.attempts.was_attempted_before(waiting.item)

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
                await self._worker.hand_in(waiting.item, outputs)
        finally:
            self._in_progress -= 1
            self._alone = False
            self._changed.set()

    async def _outcome(self, waiting: Waiting) -> Sequence[Message] | None:
        """Return what settles a signal; None if it waits for another attempt."""
        attempts = self._worker.attempts
        item, served, reason = waiting.item, self._served, KILLED
        if not attempts.is_spent(item):
            began_after = served.failures
            await attempts.begin(item)
            try:
                return attempts.finished(item, await self._synthesis.settle(waiting, served))
            except NOT_THE_MODELS:
                raise
            except Exception as error:  # noqa: BLE001 - the boundary round one signal
                # The model is to blame unless it has just answered another signal.
                attempts.failed(item)
                is_models = served.failures > 0
                await served.failed(error, began_after)
                reason = reason_of(error)
            if is_models:
                await attempts.put_back(item)
            if not attempts.is_spent(item):
                return None
        end = self._synthesis.failure(waiting, served.name, reason)
        return attempts.dead_letter(item, reason, (end,))

    async def _settle_expired(self) -> None:
        """Settle signals that waited too long, measured by the newest policy version.

        None expires while the model does not answer.
        """
        newest = await self._reader.last(topic_of(PolicyVersion))
        if newest is None:
            return
        version = decode_as(newest, PolicyVersion).version
        self._worker.reporter.policy_version = version
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
        name, worker = self._served.name, self._worker
        async with asyncio.TaskGroup() as group:
            for each in expired:
                end = without_synthesis(each, "expired", reason, name)
                outputs = worker.attempts.skipped(each.item, reason, (end,))
                group.create_task(worker.hand_in(each.item, outputs))

    async def _serve_swaps(self) -> None:
        while True:
            item, request = await self._swaps.get()
            fresh = self._serve(request.model)
            try:
                await fresh.check()
            except JournalError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a model's server does
                reason = reason_of(error)
                log.warning("swap_refused", request=request.request_id, reason=reason)
                refusal = SwapRefused(request_id=request.request_id, reason=reason)
                await self._worker.hand_in(item, (refusal,))
                await fresh.close()
            else:
                await self._swap(item, request, fresh)

    async def _swap(self, item: WorkItem, request: SwapRequested, fresh: ServedModel) -> None:
        """Let ``fresh`` take over as soon as the journal has recorded it."""
        swapped = SynthesizerSwapped(
            request_id=request.request_id, model=request.model, synthesizer=fresh.name
        )
        if not await self._worker.hand_in(item, (swapped,)):
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
