"""What the parts of a run are handed where its policy is a shrunk one."""

from pathlib import Path

from msgspec.structs import replace

from protocols.config import Engine, RunConfig, VllmEngine

MODEL = "model"
"""Folder of the shrunk model, in the run's."""

KV_CACHE_MB = 64
"""Enough for some hundred thousand tokens of a shrunk model."""


def running(config: RunConfig, run_dir: Path) -> RunConfig:
    """Return the settings that the parts work with: ``config``, unless its policy is shrunk.

    Then the policy is the model in the run's folder, and learner and engines are on the CPU.
    """
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
