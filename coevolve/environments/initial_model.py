"""Makes the model that a run starts from, if the run makes its own, and keeps what it needs."""

from pathlib import Path

from coevolve.base.durable_files import make_folder, replace_file
from coevolve.environments.registry import environment_of
from coevolve.models.tiny_random.resolve import MODEL
from protocols.config import RunConfig
from protocols.errors import ConfigError

TASKS = "tasks.jsonl"
"""File in a run's folder: the tasks with which the run began."""


def make_model(config: RunConfig, run_dir: Path) -> None:
    """Write the initial model of a run to its folder, if the run makes its own.

    Raises ConfigError if the run began with other tasks.
    """
    environment = environment_of(config)
    _keep(run_dir / TASKS, environment.task_file())
    if config.policy.tiny_random:
        from coevolve.models.tiny_random.model import write_model

        write_model(config, run_dir / MODEL, environment.texts())
    else:
        environment.make_model(run_dir / MODEL)


def _keep(file: Path, tasks: bytes) -> None:
    """Write a new run's tasks; compare them with an earlier run's. Raises ConfigError."""
    if file.is_file():
        if file.read_bytes() != tasks:
            raise ConfigError(
                "environment.tasks: needs to be as it was when the run began, found another "
                f"content; the run has kept it: copy {file} to its place"
            )
    elif tasks:
        make_folder(file.parent, exist_ok=True)
        replace_file(file, tasks)
