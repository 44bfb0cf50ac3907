"""Makes the model that a run starts from, if the run makes its own, and keeps what it needs."""

from pathlib import Path

from coevolve.environments.registry import environment_of
from coevolve.models.tiny_random.resolve import MODEL
from protocols.config import RunConfig


def make_model(config: RunConfig, run_dir: Path) -> None:
    """Write the initial model of a run to its folder, if the run makes its own.

    Raises ConfigError if what the environment keeps there is of another run.
    """
    environment = environment_of(config)
    environment.prepare(run_dir)
    if config.policy.tiny_random:
        from coevolve.models.tiny_random.model import write_model

        write_model(config, run_dir / MODEL, environment.texts())
    else:
        environment.make_model(run_dir / MODEL)
