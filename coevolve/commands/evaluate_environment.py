"""Scores a model or an endpoint on the tasks of an environment, without a run or a run file.

The settings of a model's conversations are measured and chosen as a start does.
"""

from dataclasses import dataclass
from functools import partial

import msgspec

from coevolve.base.terminal import Terminal
from coevolve.commands.attempts import Attempts, Say, Which
from coevolve.commands.attempts_table import answer, print_line
from coevolve.commands.authors import score_endpoint, tasks_of, tool_environment
from coevolve.commands.environment import configured, full_name
from coevolve.commands.start import (
    COMMAND_LINE,
    Request,
    Start,
    endpoint_of,
)
from coevolve.environments.tools.scripted.model import NAME as SCRIPTED
from coevolve.parts import logs
from protocols.errors import ConfigError
from protocols.synthesizers import EndpointModel


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is scored, and on which tasks."""

    use: str
    settings: tuple[str, ...]
    """Settings of the environment, ``NAME=VALUE``; or of a run, where the name has a section."""

    policy: str
    endpoint: tuple[str, str] | None
    """URL and model."""

    key_variable: str
    temperature: float | None
    attempts: int
    which: Which
    as_json: bool


def evaluate_environment(subject: Subject) -> None:
    """Score and print. Raises CoevolveError."""
    terminal = Terminal(stderr=subject.as_json)
    say = partial(print_line, terminal)
    endpoint = endpoint_of(subject.endpoint, subject.key_variable, "--endpoint")
    with logs.errors_alone():
        scored = _of_policy(subject, say) if endpoint is None else _at(subject, endpoint, say)
    answer(terminal, scored, as_json=subject.as_json)


def _at(subject: Subject, endpoint: EndpointModel, say: Say) -> Attempts:
    if endpoint.model == SCRIPTED:
        raise ConfigError(
            f"--model {SCRIPTED}: needs a model, found the script of `coevolve endpoint scripted`, "
            "which makes tasks and attempts none; give the name of another server's model"
        )
    if subject.temperature is not None:
        endpoint = msgspec.structs.replace(endpoint, temperature=subject.temperature)
    config = configured(subject.use, subject.settings)
    tasks = tasks_of(tool_environment(config), subject.which)
    return score_endpoint(config, endpoint, tasks, subject.attempts, say)


def _of_policy(subject: Subject, say: Say) -> Attempts:
    start = Start(
        Request(
            use=subject.use,
            tasks="",
            model=subject.policy,
            synthesizer=None,
            name="evaluation",
            attempts=subject.attempts,
            sample=0,
            steps=0,
            overwrite=False,
            overrides=tuple(map(full_name, subject.settings)),
            runs=COMMAND_LINE,
            run_file=COMMAND_LINE,
            temperature=subject.temperature,
        ),
        say,
    )
    start.take_model()
    start.measure()
    return start.score(tasks_of(start.environment, subject.which))
