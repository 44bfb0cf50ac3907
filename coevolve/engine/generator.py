"""Serves the policy to many conversations at once, with transformers, on the CPU.

One thread owns the model and steps it (`coevolve.engine.engine`); requests reach it from any event
loop at any time, and the answers of one tick travel back in one wake-up per loop. A request's
tokens depend on its prompt, its seed and the weights, and on other requests only through the
rounding of a common forward.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from transformers import PreTrainedModel

from coevolve.engine.engine import MAX_STOPS, Engine
from coevolve.engine.served_weights import read_weights
from coevolve.learning.reading import read_model
from protocols import columns
from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest
from protocols.learning import PolicyVersion, Served

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class _Waiter(Generic[Result]):
    """Who waits for the engine's thread, and where."""

    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Result]"


class TransformersGenerator:
    """A `protocols.interfaces.Generator`."""

    def __init__(
        self,
        model: Path,
        run_dir: Path,
        *,
        max_concurrent: int,
        max_length: int,
        threads: int = 1,
    ) -> None:
        """Load the model of the folder ``model``, policy version 0, and start the engine.

        Args:
            model: Folder in Hugging Face layout.
            run_dir: What the paths of policy versions are relative to.
            max_concurrent: Conversations that are cached at a time; further requests wait.
            max_length: Tokens of the longest conversation, answers included.
            threads: CPU threads of the model's arithmetic, for the whole process.
        """
        self._folder = model
        self._run_dir = run_dir
        self._max_length = max_length
        self._threads = threads
        self._cpu_s = 0.0
        self._base: dict[str, torch.Tensor] | None = None
        served = _load(model, max_length)
        self._parameters = dict(served.named_parameters())
        self._engine: Engine[_Waiter[Generation]] = Engine(served, max_concurrent, max_length)
        self._waiting: deque[tuple[_Waiter[Generation], GenerationRequest]] = deque()
        """Requests that found every slot busy, oldest first; the engine's thread alone uses it."""

        self._wake = threading.Condition()
        self._orders: deque[Callable[[], None]] = deque()
        """What the engine's thread is to do before its next tick; guarded by ``_wake``, as are
        the following."""

        self._unsettled: set[_Waiter[Any]] = set()
        self._broken: str | None = None
        """Why nothing is served any more."""

        self._thread = threading.Thread(target=self._serve, name="generator", daemon=True)
        self._thread.start()

    async def generate(self, request: GenerationRequest) -> Generation:
        """Continue the request's tokens. Raises GeneratorError where the engine broke."""
        self._check(request)
        waiter: _Waiter[Generation] = _waiter()
        self._order(lambda: self._waiting.append((waiter, request)), waiter)
        try:
            return await waiter.future
        except asyncio.CancelledError:
            self._forget(request.conversation_id)
            raise

    async def release(self, conversation_id: str) -> None:
        """Forget what is cached of a conversation; unknown ones are no error."""
        self._forget(conversation_id)

    async def load(self, version: PolicyVersion) -> Served:
        """Serve the weights of ``version`` from the next token on, and say what is served.

        Requests in flight keep going, on keys and values that the old weights made. Raises
        GeneratorError where the file is not that of the record; the old weights then stay.
        """
        ordered_s = time.perf_counter()
        weights = await asyncio.to_thread(self._read, version)
        token_ids = columns.from_int32(version.probe.token_ids)
        waiter: _Waiter[Served] = _waiter()

        def swap() -> None:
            began_s = time.perf_counter()
            self._engine.swap_weights(weights, version.version)
            logprobs = self._engine.probe(token_ids) if token_ids else ()
            ended_s = time.perf_counter()
            served = Served(
                version=version.version,
                digest=version.digest,  # `read_weights` refuses a file with another one
                logprobs=columns.float32(logprobs),
                wall_s=ended_s - ordered_s,
                pause_s=ended_s - began_s if self._engine.busy else 0.0,
            )
            self._settle([(waiter, served)])

        self._order(swap, waiter)
        return await waiter.future

    def cpu_s(self) -> float:
        """Return the CPU seconds of the engine's thread: model, sampling and batching."""
        return self._cpu_s

    async def close(self) -> None:
        """End the engine; requests in flight raise GeneratorError."""
        self._break("the generator was closed")
        await asyncio.to_thread(self._thread.join)

    def _check(self, request: GenerationRequest) -> None:
        length = len(request.prompt_ids) + request.max_tokens
        if not request.prompt_ids or length > self._max_length:
            raise GeneratorError(
                f"conversation {request.conversation_id!r} needs a prompt and room for its answer: "
                f"{len(request.prompt_ids)} + {request.max_tokens} tokens asked for, "
                f"{self._max_length} served"
            )
        if len(request.stop_ids) > MAX_STOPS:
            raise GeneratorError(
                f"at most {MAX_STOPS} stop tokens are served, got {len(request.stop_ids)}"
            )

    def _order(self, order: Callable[[], None], waiter: _Waiter[Any] | None = None) -> None:
        with self._wake:
            if self._broken is not None:
                raise GeneratorError(self._broken)
            if waiter is not None:
                self._unsettled.add(waiter)
            self._orders.append(order)
            self._wake.notify()

    def _forget(self, conversation_id: str) -> None:
        error = GeneratorError(f"conversation {conversation_id!r} was released")

        def forget() -> None:
            dropped = [each for each in self._waiting if each[1].conversation_id == conversation_id]
            for each in dropped:
                self._waiting.remove(each)
            held = self._engine.release(conversation_id)
            waiters = [waiter for waiter, _ in dropped] + ([held] if held else [])
            self._settle([(waiter, error) for waiter in waiters])

        with suppress(GeneratorError):
            self._order(forget)

    def _read(self, version: PolicyVersion) -> dict[str, torch.Tensor]:
        if version.format == "full":
            return read_weights(version, self._run_dir, self._parameters)
        if self._base is None:
            self._base = dict(_load(self._folder, self._max_length).named_parameters())
        return read_weights(version, self._run_dir, self._base)

    def _serve(self) -> None:
        torch.set_num_threads(self._threads)
        try:
            while self._take_orders():
                self._start_waiting()
                if self._engine.busy:
                    self._settle(self._engine.tick())
                    self._cpu_s = time.thread_time()
        except Exception as error:
            self._break(f"the rollout engine broke: {type(error).__name__}: {error}")
            raise

    def _take_orders(self) -> bool:
        """Carry out what was ordered, waiting for an order where all is idle; False at the end."""
        with self._wake:
            while not (self._orders or self._waiting or self._engine.busy or self._broken):
                self._wake.wait()
            orders = list(self._orders)
            self._orders.clear()
            broken = self._broken
        for order in orders:
            order()
        return broken is None

    def _start_waiting(self) -> None:
        while self._waiting:
            waiter, request = self._waiting[0]
            try:
                if not self._engine.start(waiter, request):
                    return
            except GeneratorError as error:
                self._settle([(waiter, error)])
            self._waiting.popleft()

    def _settle(self, results: Sequence[tuple[_Waiter[Any], object]]) -> None:
        """Hand results, or errors, to those who wait: one wake-up per event loop."""
        if not results:
            return
        with self._wake:
            self._unsettled.difference_update(waiter for waiter, _ in results)
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], object]]] = {}
        for waiter, result in results:
            by_loop.setdefault(waiter.loop, []).append((waiter.future, result))
        for loop, settled in by_loop.items():
            with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(_resolve, settled)

    def _break(self, reason: str) -> None:
        with self._wake:
            self._broken = self._broken or reason
            left = list(self._unsettled)
            self._wake.notify()
        self._settle([(waiter, GeneratorError(reason)) for waiter in left])


def _waiter() -> _Waiter[Any]:
    loop = asyncio.get_running_loop()
    return _Waiter(loop, loop.create_future())


def _resolve(settled: Sequence[tuple["asyncio.Future[Any]", object]]) -> None:
    for future, result in settled:
        if future.done():
            continue
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)


def _load(folder: Path, max_length: int) -> PreTrainedModel:
    model = read_model(folder)
    config = model.config
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None) or max_length
    if not kinds <= {"full_attention", "sliding_attention"} or window < max_length:
        raise GeneratorError(
            f"{folder}: every layer needs to attend to all {max_length} tokens of a conversation; "
            f"found layers of {sorted(kinds)}, window {window}"
        )
    if config.max_position_embeddings < max_length:
        raise GeneratorError(
            f"{folder}: a conversation may have {max_length} tokens, but the model was made for "
            f"{config.max_position_embeddings}; lower rollout.max_tokens"
        )
    return model.eval().requires_grad_(False)
