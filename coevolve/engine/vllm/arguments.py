"""The arguments with which vLLM's engine is made; what differs between platforms is here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from vllm import EngineArgs
from vllm.platforms import current_platform

from protocols.config import VllmEngine

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Adapter ranks that vLLM can allocate."""

MEGABYTE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Capacity limits of an engine."""

    concurrent: int
    """Maximum number of requests in progress; further ones wait."""

    length: int
    """Maximum tokens of a conversation, including answers."""

    adapters: int = 0
    """Maximum number of adapters in use at a time, two or more; 0 if all are merged."""

    rank: int = 0
    """Highest rank of an adapter."""


def engine_arguments(folder: Path, settings: VllmEngine, limits: Limits) -> EngineArgs:
    """Return the arguments with which vLLM serves the model of ``folder`` in this process."""
    cpu = current_platform.is_cpu()
    adapters: dict[str, Any] = {}
    if limits.adapters:
        adapters = {
            "enable_lora": True,
            "max_loras": limits.adapters,
            "max_cpu_loras": limits.adapters,
            "max_lora_rank": next(rank for rank in RANKS if rank >= limits.rank),
        }
    return EngineArgs(
        model=str(folder),
        skip_tokenizer_init=True,
        dtype=settings.dtype,
        max_model_len=limits.length,
        # One more, so that a measurement never waits for a conversation to end.
        max_num_seqs=limits.concurrent + 1,
        max_num_batched_tokens=max(settings.batch_tokens, limits.concurrent + 1),
        block_size=cast("Any", settings.block_size),
        # On a CPU, the default is nine tenths of the machine's memory.
        kv_cache_memory_bytes=settings.kv_cache_mb * MEGABYTE or None,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        enable_prefix_caching=True,
        enforce_eager=cpu or settings.enforce_eager,
        enable_sleep_mode=settings.sleeps and not cpu,
        # One process, and no step in progress while weights change.
        distributed_executor_backend="uni",
        async_scheduling=False,
        logprobs_mode="processed_logprobs",
        generation_config="vllm",
        disable_log_stats=True,
        **adapters,
    )
