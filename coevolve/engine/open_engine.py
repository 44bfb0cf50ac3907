"""Opens the sampling engine that a run's settings name; torch and vLLM are imported with it."""

from pathlib import Path

from coevolve.engine.vllm import environment
from coevolve.models.model_folder import model_folder
from protocols.config import RunConfig, TransformersEngine, VllmEngine
from protocols.interfaces import Generator


def open_engine(config: RunConfig, run_dir: Path, conversations: int) -> Generator:
    """Return an engine that serves ``conversations`` conversations at a time.

    Raises GeneratorError if the engine cannot serve the run's model.
    """
    match config.rollout.engine:
        case TransformersEngine() as settings:
            from coevolve.engine.generator import TransformersGenerator

            return TransformersGenerator(
                model_folder(config.policy.model),
                run_dir,
                max_concurrent=conversations,
                max_length=config.rollout.max_tokens,
                threads=settings.threads,
                dtype=settings.dtype,
            )
        case VllmEngine() as settings:
            return _vllm_engine(config, run_dir, settings, conversations)


def _vllm_engine(
    config: RunConfig, run_dir: Path, settings: VllmEngine, conversations: int
) -> Generator:
    environment.require_vllm(settings)
    environment.set_variables(settings)
    from coevolve.engine.vllm.arguments import Limits
    from coevolve.engine.vllm.generator import VllmGenerator

    # One adapter per version that a rollout may lag behind, one for the newest, and one in
    # transfer.
    adapters = config.learner.max_staleness + 2
    return VllmGenerator(
        model_folder(config.policy.model),
        run_dir,
        settings,
        Limits(
            concurrent=conversations,
            length=config.rollout.max_tokens,
            adapters=adapters if settings.deliver == "adapter" else 0,
            rank=config.policy.lora_rank,
        ),
        seed=config.seed,
    )
