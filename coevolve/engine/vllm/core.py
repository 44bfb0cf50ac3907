"""One vLLM engine in this process, with requests, steps, and changes of weights between steps.

It takes and returns tokens: it renders no text, and only the request's stop tokens stop it.
Logprobs are those of the sampling distribution (the plain one at temperature 0). Prefixes are
cached by their tokens, also across conversations. New weights clear the cache, and the keys and
values of requests in flight are computed again.

Adapters are switched by name. Requests in flight keep the adapter that they began with, which stays
until the last of them has ended. A name, an id and a path always identify the same adapter, because
vLLM caches prefixes by name and path, and reloads dropped adapters by path.

Synchronous and single-threaded: `coevolve.engine.vllm.generator` runs it in a thread.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from vllm import SamplingParams
from vllm.logprobs import FlatLogprobs
from vllm.lora.request import LoRARequest
from vllm.outputs import RequestOutput
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.llm_engine import LLMEngine

from coevolve.engine.fitting import checked, in_short
from coevolve.engine.vllm import repairs
from coevolve.engine.vllm.arguments import Limits, engine_arguments
from coevolve.engine.vllm.fresh import fresh_model, settings_of
from coevolve.engine.vllm.tensors import Tensors
from coevolve.weights.models import read_parameters
from protocols.config import VllmEngine
from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest
from protocols.learning import Computed
from protocols.numbers import MIN_TEMPERATURE

SEEDS = 1 << 63

Logprobs = npt.NDArray[np.float32]
Ticket = TypeVar("Ticket")


@dataclass(frozen=True, kw_only=True)
class _Adapter:
    """An adapter as vLLM knows it."""

    request: LoRARequest
    version: int


@dataclass(frozen=True, kw_only=True)
class _Flight(Generic[Ticket]):
    """A request in progress."""

    ticket: Ticket
    internal_id: str
    conversation_id: str | None
    """None for a measurement."""

    adapter: _Adapter | None


class Core(Generic[Ticket]):
    """The engine and the unfinished requests; a ticket identifies a request's owner."""

    def __init__(self, folder: Path, settings: VllmEngine, limits: Limits) -> None:
        """Load the model of ``folder``, policy version 0. Raises GeneratorError."""
        repairs.apply()
        self._limits = limits
        self._numbers = count(1)
        self._flights: dict[str, _Flight[Ticket]] = {}
        self._of_conversation: dict[str, str] = {}
        self._adapter: _Adapter | None = None
        """Adapter for new requests; None for the plain weights."""

        self._resident: dict[int, _Adapter] = {}
        """Adapters that vLLM has loaded, by vLLM's id."""

        self._step_s = 0.0
        self._changed_at = 0.0
        self._stalled: dict[str, int] = {}
        """Request id -> its output tokens, for requests without a new token since the last
        change."""

        self.pause_s = 0.0
        """Longest delay, in seconds, that the last change caused to a request's next token."""

        try:
            self._llm = LLMEngine.from_engine_args(engine_arguments(folder, settings, limits))
        except (ValueError, RuntimeError, ImportError, OSError) as error:
            raise GeneratorError(
                f"{folder}: vLLM cannot serve it with {limits.length} tokens per conversation, "
                f"rollout.engine.dtype {settings.dtype} and kv_cache_mb {settings.kv_cache_mb}: "
                f"{in_short(error)}; choose rollout.engine.kind transformers"
            ) from error
        self._llm.set_weight_version("0")
        (model,) = self._llm.apply_model(lambda model: model)
        _check_is_own(model, folder)
        self._tensors = Tensors(
            model, read_parameters(folder, with_values=False), self._llm.model_config.dtype
        )
        self._model = model
        fresh = fresh_model(self._llm.vllm_config)
        self.computed = Computed(
            rows=dict(self._tensors.tables_of(fresh)), settings=settings_of(fresh)
        )
        """Tables and settings computed from the config."""

        self._vocabulary = self._llm.model_config.get_vocab_size()

    @property
    def busy(self) -> bool:
        return bool(self._flights) and not self._llm.is_sleeping()

    def start(self, ticket: Ticket, request: GenerationRequest) -> None:
        """Start a request. Raises GeneratorError if it cannot be served."""
        if request.conversation_id in self._of_conversation:
            raise GeneratorError(
                f"conversation {request.conversation_id!r} already has a request in flight; "
                "send a conversation's requests one after the other"
            )
        _check_temperature(request)
        settings = _sampling(
            temperature=request.temperature,
            seed=request.seed % SEEDS,
            max_tokens=request.max_tokens,
            stop_token_ids=list(request.stop_ids),
        )
        number = self._add(ticket, request.prompt_ids, settings, request.conversation_id)
        self._of_conversation[request.conversation_id] = number

    def measure(self, ticket: Ticket, token_ids: Sequence[int]) -> None:
        """Compute the logprobs of all tokens except the first, in a separate request."""
        self._add(ticket, token_ids, _sampling(max_tokens=1, prompt_logprobs=0), None)

    def release(self, conversation_id: str) -> Ticket | None:
        """Abort a conversation's request, if any, and return its ticket."""
        number = self._of_conversation.pop(conversation_id, None)
        if number is None:
            return None
        flight = self._flights.pop(number)
        self._llm.abort_request([flight.internal_id], internal=True)
        self._drop_unused_adapters()
        return flight.ticket

    def tick(self) -> list[tuple[Ticket, Generation | Logprobs | GeneratorError]]:
        began = time.perf_counter()
        outputs = cast("list[RequestOutput]", self._llm.step())
        ended = time.perf_counter()
        if self._stalled:
            self._note_pause(ended)
        else:
            self._step_s = ended - began
        finished = [self._result(output) for output in outputs if output.finished]
        if finished:
            self._drop_unused_adapters()
        return finished

    def serve_weights(self, weights: Iterable[tuple[str, torch.Tensor]], version: int) -> None:
        """Serve these weights, given by Hugging Face's names, from now on.

        An error leaves the engine between two versions; the caller must not use it any more.
        """
        began = self._begin_change()
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights)})
        self._llm.apply_model(repairs.retie)
        self._llm.set_weight_version(str(version))
        # Without this flag, nothing is reset while requests are in flight.
        if not self._llm.reset_prefix_cache(reset_running_requests=True):
            raise RuntimeError(f"version {version}: vLLM kept its cache of the old weights")
        self._end_change(began)

    def serve_adapter(self, folder: Path, version: int, digest: str) -> bool:
        """Use this adapter for new requests; return False if every adapter slot is in use.

        Raises GeneratorError if vLLM refuses it; the engine then keeps the earlier weights.
        """
        name = f"policy@{version}:{digest}"
        if self._adapter is not None and self._adapter.request.lora_name == name:
            return True
        if len(self._resident) >= self._limits.adapters:
            return False
        began = self._begin_change()
        request = LoRARequest(name, next(self._numbers), str(folder))
        try:
            # Load it now, because an error while a request loads it would end the engine.
            self._llm.add_lora(request)
        except (ValueError, RuntimeError, OSError) as error:
            raise GeneratorError(
                f"{folder}: vLLM cannot serve the adapter of version {version}: {error}; the "
                "engine keeps its weights. rollout.engine.deliver: merged serves every adapter"
            ) from error
        self._adapter = _Adapter(request=request, version=version)
        self._resident[request.lora_int_id] = self._adapter
        self._drop_unused_adapters()
        self._end_change(began)
        return True

    def sleep(self) -> None:
        """Free the device: weights go to main memory, and keys and values are dropped.

        Requests in flight keep their tokens. On a CPU they are paused, and no memory is freed.
        """
        self._llm.sleep(level=1, mode="keep")

    def wake(self) -> None:
        """Continue the requests in flight, whose keys and values are computed again."""
        self._llm.wake_up()

    def row_sums(self) -> Iterator[tuple[str, bytes]]:
        """Yield the row sums of all tensors that serve new requests, tensor by tensor.

        For an adapter, yields those of its two matrices, B including the scale. The engine may step
        in between, but its weights must not change.
        """
        yield from self._tensors.row_sums()
        if self._adapter is not None:
            (manager,) = self._llm.collective_rpc(_adapter_manager)
            slot = manager.lora_index_to_id.index(self._adapter.request.lora_int_id)
            yield from self._tensors.adapter_sums(manager.modules, slot)

    def settings(self) -> dict[str, str]:
        """Return the sampling settings other than tensors."""
        return settings_of(self._model)

    def adapter_folders(self) -> set[Path]:
        """Return the folders of the adapters that vLLM may load again."""
        return {Path(adapter.request.lora_path) for adapter in list(self._resident.values())}

    def serve_base(self) -> None:
        """Use no adapter for new requests."""
        self._adapter = None
        self._drop_unused_adapters()

    def _add(
        self,
        ticket: Ticket,
        prompt_ids: Sequence[int],
        settings: SamplingParams,
        conversation_id: str | None,
    ) -> str:
        # Without this check, an invalid token would end the engine.
        if not 0 <= min(prompt_ids) <= max(prompt_ids) < self._vocabulary:
            raise GeneratorError(
                f"a prompt needs tokens from 0 to {self._vocabulary - 1}, found {min(prompt_ids)} "
                f"to {max(prompt_ids)}"
            )
        number = str(next(self._numbers))
        adapter = self._adapter
        try:
            internal_id = self._llm.add_request(
                number,
                cast("Any", {"prompt_token_ids": list(prompt_ids)}),
                settings,
                lora_request=adapter.request if adapter is not None else None,
            )
        except (ValueError, TypeError) as error:
            raise GeneratorError(f"vLLM refuses a request: {error}") from error
        self._flights[number] = _Flight(
            ticket=ticket, internal_id=internal_id, conversation_id=conversation_id, adapter=adapter
        )
        return number

    def _result(
        self, output: RequestOutput
    ) -> tuple[Ticket, Generation | Logprobs | GeneratorError]:
        flight = self._flights.pop(output.request_id)
        said = output.outputs[0]
        if said.finish_reason not in ("stop", "length"):
            return flight.ticket, GeneratorError(f"vLLM ended a request: {said.finish_reason}")
        if flight.conversation_id is None:
            measured = cast("FlatLogprobs", output.prompt_logprobs).logprobs
            return flight.ticket, np.asarray(measured, dtype=np.float32)
        del self._of_conversation[flight.conversation_id]
        if flight.adapter is not None:
            versions = (flight.adapter.version,) * len(said.token_ids)
        else:
            versions = tuple(
                int(span.version)
                for span in said.weight_versions or ()
                for _ in range(span.start, span.end)
            )
        generation = Generation(
            token_ids=tuple(said.token_ids),
            logprobs=tuple(cast("FlatLogprobs", said.logprobs).logprobs),
            versions=versions,
            stopped=said.finish_reason == "stop",
        )
        return flight.ticket, checked(generation)

    def _drop_unused_adapters(self) -> None:
        """Drop the adapters that no request uses any more."""
        used = {
            flight.adapter.request.lora_int_id
            for flight in self._flights.values()
            if flight.adapter
        }
        if self._adapter is not None:
            used.add(self._adapter.request.lora_int_id)
        for number in self._resident.keys() - used:
            self._llm.remove_lora(number)
            del self._resident[number]

    def _begin_change(self) -> float:
        self.pause_s = 0.0
        return time.perf_counter()

    def _end_change(self, began: float) -> None:
        self._changed_at = began
        self._stalled = self._output_tokens()
        if self._stalled:
            self.pause_s = time.perf_counter() - began

    def _note_pause(self, now: float) -> None:
        """Update the pause and the requests that have had no token since the change."""
        self.pause_s = max(0.0, now - self._changed_at - self._step_s)
        tokens = self._output_tokens()
        self._stalled = {
            number: before
            for number, before in self._stalled.items()
            if tokens.get(number) == before
        }

    def _output_tokens(self) -> dict[str, int]:
        """Return the number of sampled tokens of each request in flight."""
        states = self._llm.output_processor.request_states
        found = {
            flight.internal_id: states.get(flight.internal_id) for flight in self._flights.values()
        }
        return {
            number: state.detokenizer.num_output_tokens()
            for number, state in found.items()
            if state is not None and state.detokenizer is not None
        }


def _check_is_own(model: object, folder: Path) -> None:
    """Refuse a model that vLLM runs with transformers' code.

    vLLM changes transformers' class for the whole process, which then cannot make the model whose
    weights this engine compares with.
    """
    if type(model).__module__.startswith("vllm.model_executor.models.transformers"):
        raise GeneratorError(
            f"{folder}: rollout.engine.kind vllm needs an architecture that vLLM implements "
            "itself, found one that it runs with transformers' code, whose weights cannot be "
            "proven there; choose rollout.engine.kind transformers"
        )


def _check_temperature(request: GenerationRequest) -> None:
    """Refuse a temperature that vLLM would raise, because the logprobs would be of another one."""
    if 0 < request.temperature < MIN_TEMPERATURE:
        raise GeneratorError(
            f"conversation {request.conversation_id!r} needs the temperature 0 or at least "
            f"{MIN_TEMPERATURE}, the lowest that vLLM samples at, found {request.temperature:g}"
        )


def _adapter_manager(worker: Any) -> Any:
    return worker.model_runner.lora_manager._adapter_manager


def _sampling(**settings: Any) -> SamplingParams:
    plain: dict[str, Any] = {
        "temperature": 0.0,
        "logprobs": 0,
        "flat_logprobs": True,
        "ignore_eos": True,
        "detokenize": False,
        "output_kind": RequestOutputKind.FINAL_ONLY,
    }
    return SamplingParams(**(plain | settings))
