"""Serves the policy to many concurrent conversations with vLLM, in this process.

Set the environment variables of `coevolve.engine.vllm.environment` before you import this module. A
learner must not share the process, because vLLM binds memory and threads of the whole process. The
engine compares itself with transformers before it serves (`coevolve.engine.vllm.self_test`).

Full weights and merged adapters replace the engine's weights between two steps. Unmerged adapters
are kept beside the run's initial weights.

Tested on a CPU. Platform-dependent code is in `coevolve.engine.vllm.arguments` and has not been run
on a GPU.
"""

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from coevolve.engine.fitting import check_fits, check_positions, refuse_grammar
from coevolve.engine.stepping import Order, Stepper, Waiter
from coevolve.engine.vllm import self_test
from coevolve.engine.vllm.arguments import Limits
from coevolve.engine.vllm.core import Core, Logprobs
from coevolve.models.load import read_config
from coevolve.models.scratch_folder import scratch_folder
from coevolve.weights.models import Base
from coevolve.weights.published import Published, read_published
from protocols import columns
from protocols.config import VllmEngine
from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest
from protocols.learning import PolicyVersion, ServedWeights

READING_S = 0.02
"""Maximum seconds of reading tensors between two steps, while requests wait."""


class VllmGenerator:
    """A `protocols.interfaces.Generator`."""

    def __init__(
        self, model: Path, run_dir: Path, settings: VllmEngine, limits: Limits, *, seed: int = 0
    ) -> None:
        """Load the model of the folder ``model``, policy version 0, and start the engine.

        Args:
            model: Folder in Hugging Face layout.
            run_dir: Paths of policy versions are relative to this folder.
            settings: Settings of the engine.
            limits: Capacity limits of the engine.
            seed: Seed of the self-test.

        Raises:
            GeneratorError: vLLM cannot serve the model, or computes other numbers than
                transformers.
        """
        self._run_dir = run_dir
        self._limits = limits
        self._settings = settings
        self._base = Base(model)
        self._copies = scratch_folder()
        """Private copies of the adapters that vLLM has loaded and may load again."""

        check_positions(read_config(model), model, limits.length)
        self._core: Core[Waiter] = Core(model, settings, limits)
        if settings.self_test:
            self_test.check(self._core, model, settings, limits, seed)
        self._stepper = Stepper(self._core, settings.step_timeout_s)
        self._loading = asyncio.Lock()

    async def generate(self, request: GenerationRequest) -> Generation:
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
        """Abort a conversation's request; vLLM evicts its cache by itself."""
        self._forget(conversation_id)

    async def load(self, version: PolicyVersion) -> ServedWeights:
        """Serve ``version``, and measure its probe with an ordinary request.

        Requests in flight continue: under the new weights with recomputed keys and values, or with
        the adapter that they began with. Raises GeneratorError if the file differs from the record,
        or the version cannot be served; the engine then keeps the old weights.
        """
        async with self._loading:
            began = time.perf_counter()
            published = await asyncio.to_thread(read_published, version, self._run_dir)
            change = await asyncio.to_thread(self._change_to, published, version)
            await self._stepper.ask(change)
            self._remove_copies()
            pause_s = self._core.pause_s
            logprobs = b""
            if version.probe.logprobs:
                logprobs = (await self._measure_probe(version)).tobytes()
                pause_s = self._core.pause_s
            rows, settings = await self._read()
            return ServedWeights(
                version=version.version,
                digest=published.digest,
                logprobs=logprobs,
                precision=self._settings.dtype,
                form="adapter" if self._limits.adapters else "whole",
                rows=rows,
                settings=settings,
                anew=self._core.computed,
                wall_s=time.perf_counter() - began,
                pause_s=pause_s,
            )

    async def sleep(self) -> None:
        """Free the device; requests wait. Weights must not change until `wake`."""
        await self._between_steps(self._core.sleep)

    async def wake(self) -> None:
        await self._between_steps(self._core.wake)

    async def _between_steps(self, deed: Callable[[], None]) -> None:
        def order(waiter: Waiter) -> bool:
            deed()
            self._stepper.settle([(waiter, None)])
            return True

        await self._stepper.ask(order)

    def cpu_s(self) -> float:
        """Return the CPU seconds of the engine's thread: model, sampling, batching, weights."""
        return self._stepper.cpu_s()

    async def close(self) -> None:
        """Stop the engine; requests in flight raise GeneratorError.

        Its memory is freed with the process. vLLM's own shutdown, or dropping the engine, would
        destroy state that all engines of the process share.
        """
        await self._stepper.close("the generator was closed")
        self._copies.remove()

    def _forget(self, conversation_id: str) -> None:
        error = GeneratorError(f"conversation {conversation_id!r} was released")

        def forget() -> None:
            waiter = self._core.release(conversation_id)
            if waiter is not None:
                self._stepper.settle([(waiter, error)])

        self._stepper.tell(forget)

    def _remove_copies(self) -> None:
        """Delete copies of adapters that no request uses any more."""
        used = self._core.adapter_folders()
        for folder in self._copies.path.iterdir():
            if folder not in used:
                shutil.rmtree(folder)

    def _change_to(self, published: Published, version: PolicyVersion) -> Order:
        """Return the order that makes the engine serve ``version``."""
        if self._limits.adapters:
            return self._change_adapter(published, version)
        weights = published.weights(self._base.for_format(published.format).parameters)

        def change(waiter: Waiter) -> bool:
            self._core.serve_weights(weights.items(), version.version)
            self._stepper.settle([(waiter, None)])
            return True

        return change

    def _change_adapter(self, published: Published, version: PolicyVersion) -> Order:
        if version.format != "lora":
            raise GeneratorError(
                f"version {version.version}: rollout.engine.deliver adapter needs adapters, found "
                f"{version.format} weights; choose deliver: merged"
            )
        folder = self._copies.path / f"{version.version}-{published.digest}"
        published.copy_adapter(folder)

        def change(waiter: Waiter) -> bool:
            if not self._core.serve_adapter(folder, version.version, version.digest):
                return False
            self._stepper.settle([(waiter, None)])
            return True

        return change

    async def _read(self) -> tuple[dict[str, bytes], dict[str, str]]:
        """Return the row sums of all sampling tensors, and the settings; reads between steps."""
        found: dict[str, bytes] = {}
        reading = self._core.row_sums()

        def read(waiter: Waiter) -> bool:
            until = time.perf_counter() + READING_S
            for name, sums in reading:
                found[name] = sums
                if time.perf_counter() > until:
                    return False
            self._stepper.settle([(waiter, (found, self._core.settings()))])
            return True

        return await self._stepper.ask(read)

    async def _measure_probe(self, version: PolicyVersion) -> Logprobs:
        token_ids = columns.from_int32(version.probe.token_ids)
        if len(token_ids) >= self._limits.length:
            raise GeneratorError(
                f"version {version.version}: its probe has {len(token_ids)} tokens, but a prompt "
                f"may have fewer than {self._limits.length}; raise rollout.max_tokens"
            )

        def measure(waiter: Waiter) -> bool:
            self._core.measure(waiter, token_ids)
            return True

        return await self._stepper.ask(measure)
