"""Checks an environment, or begins one."""

import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from coevolve.base import waiting
from coevolve.base.durable_files import replace_file
from coevolve.base.foreign import boundary, shown
from coevolve.base.terminal import Terminal
from coevolve.base.user_code import exits_raised, told
from coevolve.config import preflight
from coevolve.config.load import load_config
from coevolve.config.preflight import install
from coevolve.environments import example
from coevolve.environments.common_checks import common_findings
from coevolve.environments.findings import EARNED, Finding, counted
from coevolve.environments.registry import config_of, environment_of
from coevolve.parts import logs
from coevolve.yaml.text import NotYamlError, parse_yaml
from protocols.config import PolicyConfig, RolloutConfig, RunConfig
from protocols.errors import CoevolveError, ConfigError, RunError

COLOURS = {"holds": "green", "fails": "red", "absent": "yellow", "warns": "yellow"}

NO_SUITE = Finding(
    check="hostile input", state="absent", found="the environment brings no adversary's suite"
)

UNTRIED = Finding(
    check=EARNED,
    state="absent",
    found="the environment tries none of its tasks without doing what it asks (`conformance`)",
)

_SECTIONS = ("policy.", "rollout.")
"""Settings of the run: with which model the tasks are tried, and how long its messages are."""

EXAMPLE = Path(example.__file__).parent


def check(use: str, settings: Sequence[str], *, most: int, hostile: bool, as_json: bool) -> bool:
    """Print the findings; return whether nothing failed. Raises ConfigError and RunError.

    ``hostile`` adds those of an adversary's suite.
    """
    what = f"environment.use: {use!r} cannot be checked"
    with logs.errors_alone(), told(what), exits_raised():
        config = configured(use, settings)
        with waiting.told(_say):
            findings = asyncio.run(_findings(config, most, hostile=hostile))
    if as_json:
        sys.stdout.write(json.dumps(msgspec.to_builtins(findings), indent=2) + "\n")
    else:
        Terminal().print(_table(use, findings))
    return all(finding.state != "fails" for finding in findings)


def _say(line: str) -> None:
    sys.stderr.write(f"coevolve: {line} ...\n")
    sys.stderr.flush()


def full_name(setting: str) -> str:
    """Return a setting ``NAME=VALUE`` with its section, which is the environment by default."""
    name = setting.partition("=")[0]
    return setting if "." in name else f"environment.{setting}"


def configured(use: str, settings: Sequence[str]) -> RunConfig:
    """Return the config of an environment with settings ``NAME=VALUE``; install its packages.

    ``use`` names an environment, or a run file whose settings these replace. A name that begins
    with ``policy.`` or ``rollout.`` is a setting of the run. Raises ConfigError and RunError.
    """
    if use.endswith(".yaml"):
        config = load_config(use, list(map(full_name, settings)))
        install(config)
        return config
    given = dict(map(_setting, settings))
    sections: dict[str, Any] = {}
    for name in [name for name in given if name.startswith(_SECTIONS)]:
        _put(sections, name.split("."), given.pop(name))
    config = config_of({"use": use} | given)
    with boundary(ConfigError, f"{shown(' '.join(settings))}: needs settings of a run"):
        policy = msgspec.convert(sections.get("policy", {}), PolicyConfig)
        rollout = msgspec.convert(sections.get("rollout", {}), RolloutConfig)
    install(config)
    return msgspec.structs.replace(config, policy=policy, rollout=rollout)


def _put(tree: dict[str, Any], names: Sequence[str], value: Any) -> None:
    for name in names[:-1]:
        tree = tree.setdefault(name, {})
    tree[names[-1]] = value


async def _findings(config: RunConfig, most: int, *, hostile: bool) -> tuple[Finding, ...]:
    common = await common_findings(config, most)
    own = await environment_of(config).conformance(most)
    own += () if any(each.check == EARNED for each in own) else (UNTRIED,)
    model = (_conversation(config),) if config.policy != PolicyConfig() else ()
    found = (*common, *own, *model)
    if hostile:
        found += tuple(await environment_of(config).hostile(most)) or (NO_SUITE,)
    return _told_once(found)


def _told_once(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings, where one that fails for the same reason as another points to it."""
    first: dict[str, str] = {}
    told: list[Finding] = []
    for each in findings:
        check = first.setdefault(each.found, each.check) if each.state == "fails" else each.check
        found = each.found if check == each.check else f"not measured: see {check!r}"
        told.append(msgspec.structs.replace(each, found=found))
    return tuple(told)


def _conversation(config: RunConfig) -> Finding:
    """Return whether the model that is named can hold the conversations of the tasks."""
    try:
        preflight.check(msgspec.structs.replace(config, arm="static"))
    except CoevolveError as error:
        return Finding(check="conversations", state="fails", found=str(error))
    found = f"{config.policy.model} reads and writes those of all tasks"
    return Finding(check="conversations", state="holds", found=found)


def write_tasks(use: str, settings: Sequence[str], to: Path) -> None:
    """Write the tasks of a program into a new file. Raises CoevolveError."""
    if to.exists():
        raise RunError(f"{to}: exists already; name a file that does not exist yet")
    with told(f"environment.use: {use!r} cannot be asked for tasks"), exits_raised():
        config = configured(use, (*settings, f"tasks={json.dumps(str(to))}"))
        lines = environment_of(config).ask_tasks()
    replace_file(to, lines)
    number = len(lines.splitlines())
    sys.stdout.write(f"{to}: {counted(number, 'task')}\n")


def init(folder: Path) -> None:
    """Write the example into a folder that does not exist yet. Raises RunError."""
    if folder.exists():
        raise RunError(f"{folder}: exists already; name a folder that does not exist yet")
    try:
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__*"))
    except OSError as error:
        raise RunError(f"{folder}: needs to be a folder that can be made: {error}") from error
    sys.stdout.write(
        f"{folder}: todo.py has the tools, tasks.jsonl the tasks; go on with\n"
        f"  cd {folder}\n"
        "  coevolve environment check todo:Todo tasks=tasks.jsonl\n"
        "  coevolve start todo:Todo tasks.jsonl\n"
        "which trains a small model; `coevolve launch run.yaml` tries all parts with a random one\n"
    )


def _setting(word: str) -> tuple[str, Any]:
    name, equals, text = word.partition("=")
    try:
        value = parse_yaml(text)
    except NotYamlError as error:
        raise RunError(f"{shown(word)}: the value is not YAML: {error}") from error
    if not (name and equals):
        example = f"tasks={word if Path(word).exists() else 'tasks.jsonl'}"
        raise RunError(f"{shown(word)}: needs the form name=value, for example {example}")
    return name, value


def _table(use: str, findings: Sequence[Finding]) -> Table:
    table = Table(title=use)
    for column in ("check", "", "found"):
        table.add_column(column)
    for finding in findings:
        colour = COLOURS[finding.state]
        table.add_row(finding.check, Text(finding.state, style=colour), finding.found)
    return table
