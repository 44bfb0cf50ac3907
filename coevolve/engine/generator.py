"""Serves the policy to many concurrent conversations with transformers, on the CPU.

One thread (`coevolve.engine.stepping`) owns the model and steps it (`coevolve.engine.engine`);
requests may come from any event loop at any time. A request's tokens depend on its prompt, its seed
and the weights. Other requests affect them only through the rounding of a common forward.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from coevolve.engine import self_check
from coevolve.engine.engine import MAX_STOPS, Engine
from coevolve.engine.fitting import check_fits, check_grammar, check_positions
from coevolve.engine.masks import layer_windows
from coevolve.engine.stepping import Settled, Stepper, Waiter
from coevolve.models.allocator import return_freed_memory
from coevolve.models.load import read_model
from coevolve.weights.models import Base
from coevolve.weights.published import Published, read_published
from coevolve.weights.row_sums import row_sums
from coevolve.weights.settings import published_buffers, settings_of, tables_of
from protocols import columns
from protocols.config import TransformersDtype
from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest
from protocols.learning import PolicyVersion, ServedWeights

LOCAL_WINDOW = "window_size"
"""Setting of models whose layers attend locally in a way that `coevolve.engine.masks` lacks."""

_OTHERWISE = "choose rollout.engine.kind vllm, or another policy.model"


class _QueuedEngine:
    """The engine, and the requests that wait for a slot; only the engine's thread may use it."""

    def __init__(self, engine: Engine[Waiter]) -> None:
        self.engine = engine
        self._waiting: deque[tuple[Waiter, GenerationRequest]] = deque()
        """Waiting requests, oldest first."""

    @property
    def busy(self) -> bool:
        return bool(self._waiting) or self.engine.busy

    def enter(self, waiter: Waiter, request: GenerationRequest) -> None:
        self._waiting.append((waiter, request))

    def tick(self) -> list[Settled]:
        """Start waiting requests in free slots and advance every request; return finished ones."""
        settled = self._start_waiting()
        return settled + self.engine.tick() if self.engine.busy else settled

    def release(self, conversation_id: str) -> list[Waiter]:
        """Drop a conversation; return the waiters of its requests."""
        dropped = [each for each in self._waiting if each[1].conversation_id == conversation_id]
        for each in dropped:
            self._waiting.remove(each)
        held = self.engine.release(conversation_id)
        return [waiter for waiter, _ in dropped] + ([held] if held else [])

    def _start_waiting(self) -> list[Settled]:
        refused: list[Settled] = []
        while self._waiting:
            waiter, request = self._waiting[0]
            try:
                if not self.engine.start(waiter, request):
                    break
            except GeneratorError as error:
                refused.append((waiter, error))
            self._waiting.popleft()
        return refused


class TransformersGenerator:
    """A `protocols.interfaces.ScoringGenerator`."""

    def __init__(
        self,
        model: Path,
        run_dir: Path,
        *,
        max_concurrent: int,
        max_length: int,
        threads: int = 1,
        dtype: TransformersDtype = "float32",
    ) -> None:
        """Load the model of the folder ``model``, policy version 0, and start the engine.

        Args:
            model: Folder in Hugging Face layout.
            run_dir: Paths of policy versions are relative to this folder.
            max_concurrent: Maximum number of cached conversations; further requests wait.
            max_length: Maximum tokens of a conversation, including answers.
            threads: CPU threads of the model's arithmetic, for the whole process.
            dtype: Precision of the weights that sample.

        Raises:
            GeneratorError: The engine cannot serve the model.
        """
        return_freed_memory()
        self._run_dir = run_dir
        self._max_length = max_length
        self._base = Base(model)
        self._precision = dtype
        self._model = _load(model, max_length, getattr(torch, dtype))
        self_check.check(self._model, model, max_length)
        self._loading = asyncio.Lock()
        self._queued = _QueuedEngine(Engine(self._model, max_concurrent, max_length))
        self._stepper = Stepper(self._queued)
        self._stepper.tell(lambda: torch.set_num_threads(threads))

    async def generate(self, request: GenerationRequest) -> Generation:
        self._check(request)

        def enter(waiter: Waiter) -> bool:
            self._queued.enter(waiter, request)
            return True

        try:
            return await self._stepper.ask(enter)
        except asyncio.CancelledError:
            self._forget(request.conversation_id)
            raise

    async def logprobs(self, rows: Sequence[Sequence[int]]) -> Sequence[Sequence[float]]:
        def tell(waiter: Waiter) -> bool:
            self._stepper.settle([(waiter, self._queued.engine.probe(rows))])
            return True

        return await self._stepper.ask(tell)

    async def release(self, conversation_id: str) -> None:
        self._forget(conversation_id)

    async def load(self, version: PolicyVersion) -> ServedWeights:
        """Serve the weights of ``version`` from the next token on, and report what is served.

        Requests in flight continue on keys and values of the old weights. Raises GeneratorError if
        the file differs from the record; the engine then keeps the old weights.
        """
        async with self._loading:
            return await self._load(version)

    async def _load(self, version: PolicyVersion) -> ServedWeights:
        ordered_s = time.perf_counter()
        published = await asyncio.to_thread(read_published, version, self._run_dir)
        weights = await asyncio.to_thread(self._weights, published)
        token_ids = columns.from_int32(version.probe.token_ids)
        engine = self._queued.engine

        def swap(waiter: Waiter) -> bool:
            began_s = time.perf_counter()
            engine.swap_weights(weights, version.version)
            # Every forward changes some tables, so read them before the probe's forward.
            tables, settings = tables_of(self._model), settings_of(self._model)
            logprobs = engine.probe([token_ids])[0] if token_ids else ()
            pause_s = time.perf_counter() - began_s if engine.busy else 0.0
            self._stepper.settle([(waiter, (tables, settings, logprobs, pause_s))])
            return True

        tables, settings, logprobs, pause_s = await self._stepper.ask(swap)
        rows = await asyncio.to_thread(self._row_sums)
        return ServedWeights(
            version=version.version,
            digest=published.digest,
            logprobs=columns.float32(logprobs),
            precision=self._precision,
            form="whole",
            rows=rows | tables,
            settings=settings,
            wall_s=time.perf_counter() - ordered_s,
            pause_s=pause_s,
        )

    def _row_sums(self) -> dict[str, bytes]:
        """Return the row sums of tensors that files store; nothing changes them meanwhile."""
        tensors = dict(self._model.named_parameters(remove_duplicate=False))
        tensors |= published_buffers(self._model)
        return {name: row_sums(tensor).tobytes() for name, tensor in tensors.items()}

    def cpu_s(self) -> float:
        return self._stepper.cpu_s()

    async def close(self) -> None:
        await self._stepper.close("the generator was closed")

    def _check(self, request: GenerationRequest) -> None:
        check_fits(request, self._max_length)
        check_grammar(request)
        if len(request.stop_ids) > MAX_STOPS:
            raise GeneratorError(
                f"a request may have at most {MAX_STOPS} stop tokens, got {len(request.stop_ids)}"
            )

    def _forget(self, conversation_id: str) -> None:
        error = GeneratorError(f"conversation {conversation_id!r} was released")

        def forget() -> None:
            released = self._queued.release(conversation_id)
            self._stepper.settle([(waiter, error) for waiter in released])

        self._stepper.tell(forget)

    def _weights(self, published: Published) -> dict[str, torch.Tensor]:
        return published.weights(self._base.for_format(published.format).parameters)


def _load(folder: Path, max_length: int, dtype: torch.dtype) -> PreTrainedModel:
    model = read_model(folder, dtype)
    config = model.config
    _check_layers(config, folder, max_length)
    longest = getattr(config, "max_position_embeddings", None) or max_length
    if longest < max_length:
        raise GeneratorError(
            f"{folder}: a conversation may have {max_length} tokens, but the model supports "
            f"{longest}; lower rollout.max_tokens"
        )
    check_positions(config, folder, max_length)
    return model.eval().requires_grad_(False)


def _check_layers(config: Any, folder: Path, max_length: int) -> None:
    """Check that the engine can mask every kind of layer. Raises GeneratorError."""
    needed = f"{folder}: rollout.engine.kind transformers needs layers of full or sliding attention"
    try:
        layer_windows(config)
    except ValueError as error:
        raise GeneratorError(f"{needed}, found {error}; {_OTHERWISE}") from error
    local: int | None = getattr(config, LOCAL_WINDOW, None)
    if local is not None and local < max_length:
        raise GeneratorError(
            f"{needed}, found local attention to {local} of {max_length} tokens; {_OTHERWISE}"
        )
