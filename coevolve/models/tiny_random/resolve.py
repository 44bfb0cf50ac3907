"""What the parts of a run are handed where the run makes its model itself."""

from pathlib import Path

from msgspec.structs import replace

from protocols.config import Engine, RunConfig, VllmEngine

MODEL = "model"
"""Folder of the model that a run makes, in the run's."""

KV_CACHE_MB = 64
"""Enough for some hundred thousand tokens of a tiny random model."""


def running(config: RunConfig, run_dir: Path) -> RunConfig:
    """Return the settings that the parts work with: ``config``, unless the run makes its model.

    Then the policy is the model in the run's folder. With a tiny random model, learner and engines
    are on the CPU.
    """
    made = run_dir / MODEL
    if config.policy.tiny_random:
        return replace(
            config,
            policy=replace(config.policy, model=str(made), device="cpu"),
            rollout=replace(config.rollout, engine=_on_cpu(config.rollout.engine)),
        )
    if made.is_dir():
        return replace(config, policy=replace(config.policy, model=str(made)))
    return config


def _on_cpu(engine: Engine) -> Engine:
    if not isinstance(engine, VllmEngine):
        return engine
    return replace(engine, gpus=0.0, kv_cache_mb=engine.kv_cache_mb or KV_CACHE_MB)
