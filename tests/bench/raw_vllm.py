"""vLLM's own offline loop, as the peer of sampling through this project.

As a program it serves one engine: `python -m tests.bench.raw_vllm`, with an `Offline` as JSON in
the first line of its input. Every further line is a list of waves; all generations of a wave are
one call of `LLM.generate`, and the program answers each list with one line, a `Measured`.

Deviation from plain vLLM: it uses `coevolve.engine.vllm.repairs`, without which a request with a
seed may end its engine on the CPU.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import msgspec

from coevolve.engine.vllm.environment import environment
from protocols.config import VllmEngine
from protocols.errors import GeneratorError


class Offline(msgspec.Struct, frozen=True, kw_only=True):
    """The engine to make."""

    folder: str
    """Folder of the model."""

    settings: VllmEngine
    concurrent: int
    length: int
    """Tokens of the longest conversation."""


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """A generation to repeat with the same length."""

    prompt_ids: tuple[int, ...]
    tokens: int
    temperature: float
    seed: int


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a list of waves."""

    tokens: int
    """Number of sampled tokens."""

    wall_s: float
    cpu_s: float


class Raw:
    """The client of the program."""

    def __init__(self, process: "subprocess.Popen[str]", complaints: IO[str]) -> None:
        """Use ``process``, which has already got the engine's settings."""
        self._process = process
        self._complaints = complaints

    def play(self, waves: Sequence[Sequence[Sampled]]) -> Measured:
        """Return the cost of the waves. Raises GeneratorError if the program has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(msgspec.json.encode(waves).decode() + "\n")
            self._process.stdin.flush()
            return msgspec.json.decode(self._process.stdout.readline(), type=Measured)
        except (OSError, msgspec.DecodeError) as error:
            self._complaints.seek(0)
            (*_, reason) = ["it said nothing", *self._complaints.read().splitlines()]
            raise GeneratorError(f"vLLM's offline loop gave no answer: {reason}") from error


@contextmanager
def raw_vllm(offline: Offline) -> Generator[Raw]:
    """Start the program, with the environment variables of this project's own engine.

    The first request waits until the engine is ready.
    """
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.raw_vllm"],
            env=os.environ | environment(offline.settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(offline).decode() + "\n")
        process.stdin.flush()
        try:
            yield Raw(process, complaints)
        finally:
            process.stdin.close()


def main() -> None:
    """Answer the lines of standard input until it ends."""
    # Prints of libraries must not mix with the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    llm = engine(msgspec.json.decode(sys.stdin.readline(), type=Offline))
    for line in sys.stdin:
        waves = msgspec.json.decode(line, type=list[list[Sampled]])
        answers.write(msgspec.json.encode(_measured(llm, waves)).decode() + "\n")
        answers.flush()


def engine(offline: Offline) -> Any:
    """Return vLLM's `LLM` with the settings of this project's own engine."""
    from vllm import LLM

    from coevolve.engine.vllm import repairs

    repairs.apply()
    settings = offline.settings
    return LLM(
        model=offline.folder,
        skip_tokenizer_init=True,
        dtype=settings.dtype,
        max_model_len=offline.length,
        max_num_seqs=offline.concurrent,
        max_num_batched_tokens=settings.batch_tokens,
        block_size=settings.block_size,
        kv_cache_memory_bytes=settings.kv_cache_mb << 20 or None,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        enforce_eager=not settings.gpus,
        distributed_executor_backend="uni",
        logprobs_mode="processed_logprobs",
        generation_config="vllm",
    )


def generate(llm: Any, wave: Sequence[Sampled]) -> list[list[int]]:
    """Return the sampled tokens; each generation has exactly its given length."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    sampling = [
        SamplingParams(
            temperature=each.temperature,
            max_tokens=each.tokens,
            seed=each.seed,
            logprobs=0,
            flat_logprobs=True,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        for each in wave
    ]
    prompts = [{"prompt_token_ids": list(each.prompt_ids)} for each in wave]
    outputs = llm.generate(prompts, sampling, use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in outputs]


def _measured(llm: Any, waves: Sequence[Sequence[Sampled]]) -> Measured:
    began, began_cpu_s = time.perf_counter(), _cpu_s()
    tokens = sum(len(said) for wave in waves for said in generate(llm, wave))
    return Measured(
        tokens=tokens,
        wall_s=time.perf_counter() - began,
        cpu_s=_cpu_s() - began_cpu_s,
    )


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
