"""What the parts of a run are handed where the run makes its model itself."""

from pathlib import Path

from msgspec.structs import replace

from coevolve.models.model_folder import TINY_HDL
from protocols.config import Engine, RunConfig, VllmEngine

MODEL = "model"
"""Folder of the model that a run makes, in the run's."""

KV_CACHE_MB = 64
"""Enough for some hundred thousand tokens of a shrunk model."""


def running(config: RunConfig, run_dir: Path) -> RunConfig:
    """Return the settings that the parts work with: ``config``, unless the run makes its model.

    Then the policy is the model in the run's folder; where it is a shrunk one, learner and engines
    are on the CPU.
    """
    if config.policy.model == TINY_HDL:
        return replace(config, policy=replace(config.policy, model=str(run_dir / MODEL)))
    if not config.policy.shrink:
        return config
    return replace(
        config,
        policy=replace(config.policy, model=str(run_dir / MODEL), device="cpu"),
        rollout=replace(config.rollout, engine=_on_cpu(config.rollout.engine)),
    )


def _on_cpu(engine: Engine) -> Engine:
    if not isinstance(engine, VllmEngine):
        return engine
    return replace(engine, gpus=0.0, kv_cache_mb=engine.kv_cache_mb or KV_CACHE_MB)
