"""Models of random weights, batches and settings of the benchmark on a GPU.

Nothing is downloaded: a model has the sizes of a published Qwen3, weights drawn from its initial
distribution, and the tokenizer of the quickstart's policy, which no part uses to read text.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from coevolve.estimate.step_time import Throughput
from coevolve.learning.group import BatchGroup
from coevolve.models.architecture import KNOWN, Architecture, ModelConfig, architecture
from coevolve.models.model_folder import TINY_FOLDER
from protocols.config import LearnerConfig, PolicyConfig, RolloutConfig, RunConfig, VllmEngine
from protocols.learner_config import ImitationConfig
from tests.bench.batches import GROUP_SIZE, batch_groups

SIZES = ("0.6B", "1.7B", "4B", "tiny")

TINY: ModelConfig = {
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}
"""A model for tests on the CPU."""

DATA_SHEETS = {"H100": (989.0, 3.35), "H200": (989.0, 4.8), "A100": (312.0, 2.04)}
"""Name of a GPU -> TFLOP/s in bfloat16, and TB/s of its memory (SXM, 80 GB or more)."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where and how large the parts of the benchmark are."""

    place: Path
    """A folder for models and versions."""

    size: str
    device: str
    """``cuda`` or ``cpu``."""

    @property
    def on_gpu(self) -> bool:
        """Whether the parts use a GPU."""
        return self.device == "cuda"

    @property
    def sizes(self) -> Architecture:
        """The model's sizes."""
        found = architecture(config_of(self.size))
        assert found is not None
        return found

    def model(self) -> Path:
        """Return the folder of the model, which is written on first use."""
        folder = self.place / "models" / self.size
        if not folder.exists():
            _write_model(folder, self.size, self.device)
        return folder


def config_of(size: str) -> ModelConfig:
    """Return the `config.json` of a size."""
    return TINY if size == "tiny" else KNOWN[f"Qwen/Qwen3-{size}"]


def _write_model(folder: Path, size: str, device: str) -> None:
    """Write random weights in bfloat16."""
    settings = dict(config_of(size))
    config = cast("Any", AutoConfig).for_model(settings.pop("model_type"), **settings)
    torch.manual_seed(0)
    with torch.device(device):
        model = cast("Any", AutoModelForCausalLM).from_config(config, dtype=torch.bfloat16)
    beside = folder.with_suffix(".part")
    model.save_pretrained(beside)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TINY_FOLDER / name, beside)
    beside.rename(folder)


def engine_settings(bench: Bench, **others: Any) -> VllmEngine:
    """Return the settings of an engine that leaves room for a second process on the GPU."""
    settings: dict[str, Any] = {"dtype": "bfloat16", "self_test": False}
    if bench.on_gpu:
        settings |= {"gpus": 1.0, "kv_cache_mb": 0, "batch_tokens": 8192}
        settings |= {"gpu_memory_utilization": 0.4}
    else:
        settings |= {"kv_cache_mb": 16}
    return VllmEngine(**(settings | others))


def learner_config(bench: Bench, *, train: Any = "full", rate: float = 1e-5) -> RunConfig:
    """Return the settings of a learner in bf16 with gradient checkpointing."""
    groups, longest = (8, 60) if bench.on_gpu else (2, 3)
    return RunConfig(
        name="gpu",
        policy=PolicyConfig(
            model=str(bench.model()),
            train=train,
            device=cast("Any", bench.device),
            precision="bf16",
            gradient_checkpointing=True,
        ),
        rollout=RolloutConfig(
            group_size=GROUP_SIZE, max_tokens=80 * longest, engine=engine_settings(bench)
        ),
        learner=LearnerConfig(
            groups_per_step=groups,
            learning_rate=rate,
            micro_batch_tokens=8192 if bench.on_gpu else 512,
            divergence_every=0,
            imitation=ImitationConfig(weight=0.0, replay_per_step=0),
            threads=8 if bench.on_gpu else 1,
        ),
    )


def batch(bench: Bench, config: RunConfig, seed: int) -> tuple[BatchGroup, ...]:
    """Return the groups of a step of `learner_config`."""
    return tuple(
        batch_groups(
            seed,
            groups=config.learner.groups_per_step,
            longest=config.rollout.max_tokens // 80,
            vocabulary=bench.sizes.vocab_size,
        )
    )


def throughput(bench: Bench) -> dict[str, float]:
    """Return what is known about the GPU, as fields of `Throughput`; empty for a CPU."""
    if not bench.on_gpu:
        return {}
    properties = torch.cuda.get_device_properties(0)
    found = {"gpu_gb": properties.total_memory / 1e9}
    for name, (tflops, bandwidth) in DATA_SHEETS.items():
        if name in properties.name:
            found |= {"tflops": tflops, "bandwidth_tb_s": bandwidth}
    return found


def assumed(bench: Bench) -> Throughput:
    """Return the GPU's figures, completed by assumptions."""
    return Throughput(**throughput(bench))
