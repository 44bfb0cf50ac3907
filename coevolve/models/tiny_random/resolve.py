"""Resolves the settings of a run that makes its own model."""

from pathlib import Path

from msgspec.structs import replace

from protocols.config import Engine, RunConfig, VllmEngine

MODEL = "model"
"""Folder of the model that a run makes, inside the run directory."""

KV_CACHE_MB = 64
"""Enough for some hundred thousand tokens of a tiny random model."""


def running(config: RunConfig, run_dir: Path) -> RunConfig:
    """Return the settings for the parts: ``config``, unless the run makes its own model.

    If it does, the policy is the model in the run directory. With a tiny random model, learner and
    engines use the CPU, and the learner is one process.
    """
    made = run_dir / MODEL
    if config.policy.tiny_random:
        return replace(
            config,
            policy=replace(config.policy, model=str(made), device="cpu"),
            rollout=replace(config.rollout, engine=_on_cpu(config.rollout.engine)),
            learner=replace(config.learner, devices=1),
        )
    if made.is_dir():
        return replace(config, policy=replace(config.policy, model=str(made)))
    return config


def _on_cpu(engine: Engine) -> Engine:
    if not isinstance(engine, VllmEngine):
        return engine
    return replace(engine, gpus=0.0, kv_cache_mb=engine.kv_cache_mb or KV_CACHE_MB)
