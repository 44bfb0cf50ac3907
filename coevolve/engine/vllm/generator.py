"""Serves the policy to many conversations at once, with vLLM, in this process.

The environment variables of `coevolve.engine.vllm.environment` have to be set before this module is
imported, and a learner never shares its process: vLLM binds memory and threads for all of it. The
engine compares itself with transformers before it serves (`coevolve.engine.vllm.self_test`).

Full weights, and adapters that are delivered merged, replace the engine's between two steps.
Adapters that are delivered as such stand beside the weights that the run started from.

Run on a CPU; what depends on the platform is in `coevolve.engine.vllm.core`, and was not run on a
GPU.
"""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from coevolve.engine.fitting import check_fits, refuse_grammar
from coevolve.engine.served_weights import check_weights, read_weights
from coevolve.engine.stepping import Order, Stepper, Waiter
from coevolve.engine.vllm import self_test
from coevolve.engine.vllm.core import Core, Limits, Logprobs
from coevolve.learning.reading import read_model
from protocols import columns
from protocols.config import VllmEngine
from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest
from protocols.learning import PolicyVersion, Served, WeightsFormat


class VllmGenerator:
    """A `protocols.interfaces.Generator`."""

    def __init__(
        self, model: Path, run_dir: Path, settings: VllmEngine, limits: Limits, *, seed: int = 0
    ) -> None:
        """Load the model of the folder ``model``, policy version 0, and start the engine.

        Args:
            model: Folder in Hugging Face layout.
            run_dir: What the paths of policy versions are relative to.
            settings: Of the engine.
            limits: What it is made for.
            seed: Of what the engine is tested with.

        Raises:
            GeneratorError: vLLM cannot serve the model, or would serve other numbers than
                transformers.
        """
        self._folder = model
        self._run_dir = run_dir
        self._limits = limits
        self._base: Mapping[str, torch.Tensor] | None = None
        self._core: Core[Waiter] = Core(model, settings, limits)
        if settings.self_test:
            self_test.check(self._core, model, settings, limits, seed)
        self._stepper = Stepper(self._core, settings.step_timeout_s)
        self._loading = asyncio.Lock()

    async def generate(self, request: GenerationRequest) -> Generation:
        """Continue the request's tokens. Raises GeneratorError where the engine broke."""
        check_fits(request, self._limits.length)
        refuse_grammar(request)

        def start(waiter: Waiter) -> bool:
            self._core.start(waiter, request)
            return True

        try:
            return await self._stepper.ask(start)
        except asyncio.CancelledError:
            self._forget(request.conversation_id)
            raise

    async def release(self, conversation_id: str) -> None:
        """End a conversation's request; what is cached goes by itself, by room and weights."""
        self._forget(conversation_id)

    async def load(self, version: PolicyVersion) -> Served:
        """Serve ``version``, and measure its probe by a request like any other.

        Requests in flight go on: under the new weights, with keys and values that are computed
        again, or to their end with the adapter that they began with. Raises GeneratorError where
        the file is not that of the record, or the version cannot be served; the old weights then
        stay.
        """
        async with self._loading:
            began = time.perf_counter()
            await self._stepper.ask(await asyncio.to_thread(self._change_to, version))
            pause_s = self._core.pause_s
            logprobs = b""
            if version.probe.logprobs:
                logprobs = (await self._measured(version)).tobytes()
                pause_s = self._core.pause_s
            return Served(
                version=version.version,
                digest=version.digest,
                logprobs=logprobs,
                wall_s=time.perf_counter() - began,
                pause_s=pause_s,
            )

    def cpu_s(self) -> float:
        """Return the CPU seconds of the engine's thread: model, sampling, batching, weights."""
        return self._stepper.cpu_s()

    async def close(self) -> None:
        """End the engine; requests in flight raise GeneratorError.

        Its memory goes with the process. vLLM's own end would take along what it shares with every
        other engine of the process; so does dropping one.
        """
        await self._stepper.close("the generator was closed")

    def _forget(self, conversation_id: str) -> None:
        error = GeneratorError(f"conversation {conversation_id!r} was released")

        def forget() -> None:
            waiter = self._core.release(conversation_id)
            if waiter is not None:
                self._stepper.settle([(waiter, error)])

        self._stepper.tell(forget)

    def _change_to(self, version: PolicyVersion) -> Order:
        """Read ``version`` and return the order that has it served."""
        if self._limits.adapters:
            return self._change_adapter(version)
        weights = read_weights(version, self._run_dir, self._base_for(version.format))

        def change(waiter: Waiter) -> bool:
            self._core.serve_weights(weights.items(), version.version)
            self._stepper.settle([(waiter, None)])
            return True

        return change

    def _change_adapter(self, version: PolicyVersion) -> Order:
        if version.format != "lora":
            raise GeneratorError(
                f"version {version.version}: rollout.engine.deliver adapter needs adapters, found "
                f"{version.format} weights; choose deliver: merged"
            )
        folder = check_weights(version, self._run_dir)

        def change(waiter: Waiter) -> bool:
            if not self._core.serve_adapter(folder, version.version, version.digest):
                return False
            self._stepper.settle([(waiter, None)])
            return True

        return change

    def _base_for(self, format: WeightsFormat) -> Mapping[str, torch.Tensor]:
        """Return the weights that the run started from; only their shapes where that will do."""
        if self._base is None:
            model = read_model(self._folder) if format == "lora" else _shapes(self._folder)
            self._base = dict(model.named_parameters())
        return self._base

    async def _measured(self, version: PolicyVersion) -> Logprobs:
        token_ids = columns.from_int32(version.probe.token_ids)
        if len(token_ids) >= self._limits.length:
            raise GeneratorError(
                f"version {version.version}: its probe has {len(token_ids)} tokens, and fewer than "
                f"{self._limits.length} are served; raise rollout.max_tokens"
            )

        def measure(waiter: Waiter) -> bool:
            self._core.measure(waiter, token_ids)
            return True

        return await self._stepper.ask(measure)


def _shapes(folder: Path) -> PreTrainedModel:
    """Return the model of ``folder`` without its weights."""
    config = cast("Any", AutoConfig).from_pretrained(folder, local_files_only=True)
    with torch.device("meta"):
        return cast("Any", AutoModelForCausalLM).from_config(config)
