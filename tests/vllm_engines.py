"""Opens vLLM engines for tests; the first one imports vLLM."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from coevolve.engine.vllm.environment import set_variables
from protocols.config import VllmEngine
from tests.serving import MAX_LENGTH

if TYPE_CHECKING:
    from coevolve.engine.vllm.generator import VllmGenerator

CONCURRENT = 16
KEPT: list[object] = []
"""Every engine of this process: if vLLM drops one, the others cannot compute any more."""


def open_engine(
    folder: Path, run_dir: Path, *, adapters: int = 0, **settings: Any
) -> "VllmGenerator":
    """Return an engine with little memory, for 16 conversations."""
    chosen = msgspec.convert({"kv_cache_mb": 16, "batch_tokens": 256} | settings, VllmEngine)
    set_variables(chosen)
    torch.set_num_threads(1)
    from coevolve.engine.vllm.arguments import Limits
    from coevolve.engine.vllm.generator import VllmGenerator

    limits = Limits(concurrent=CONCURRENT, length=MAX_LENGTH, adapters=adapters, rank=4)
    generator = VllmGenerator(folder, run_dir, chosen, limits)
    KEPT.append(generator)
    return generator
