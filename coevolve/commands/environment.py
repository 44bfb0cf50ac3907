"""Checks an environment, or begins one."""

import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from coevolve.environments import example
from coevolve.environments.common_checks import common_findings
from coevolve.environments.findings import Finding
from coevolve.environments.foreign import exits_raised, told
from coevolve.environments.registry import config_of, environment_of
from coevolve.launcher.preflight import install
from coevolve.yaml_text import NOT_YAML, parse_yaml, yaml_fault
from protocols.config import RunConfig
from protocols.errors import RunError

COLOURS = {"holds": "green", "fails": "red", "absent": "yellow"}

EXAMPLE = Path(example.__file__).parent


def check(use: str, settings: Sequence[str], *, most: int, as_json: bool) -> bool:
    """Print the findings; return whether nothing failed. Raises ConfigError and RunError."""
    with told(f"environment.use: {use!r} cannot be checked"), exits_raised():
        config = configured(use, settings)
        findings = asyncio.run(_findings(config, most))
    if as_json:
        sys.stdout.write(json.dumps(msgspec.to_builtins(findings), indent=2) + "\n")
    else:
        Console().print(_table(use, findings))
    return all(finding.state != "fails" for finding in findings)


def configured(use: str, settings: Sequence[str]) -> RunConfig:
    """Return the config of an environment with settings ``NAME=VALUE``; install its packages.

    Raises ConfigError and RunError.
    """
    config = config_of({"use": use} | dict(map(_setting, settings)))
    install(config)
    return config


async def _findings(config: RunConfig, most: int) -> tuple[Finding, ...]:
    common = await common_findings(config, most)
    return (*common, *await environment_of(config).conformance(most))


def init(folder: Path) -> None:
    """Write the example into a folder that does not exist yet. Raises RunError."""
    try:
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__*"))
    except OSError as error:
        raise RunError(f"{folder}: needs to be a folder that can be made: {error}") from error
    sys.stdout.write(
        f"{folder}: todo.py has the tools, tasks.jsonl the tasks; go on with\n"
        f"  cd {folder}\n"
        "  coevolve environment check todo:Todo tasks=tasks.jsonl\n"
        "  coevolve launch run.yaml\n"
    )


def _setting(word: str) -> tuple[str, Any]:
    name, equals, text = word.partition("=")
    try:
        value = parse_yaml(text)
    except NOT_YAML as error:
        raise RunError(f"{word!r}: the value is not YAML: {yaml_fault(error)}") from error
    if not (name and equals):
        raise RunError(f"{word!r}: needs the form name=value, for example tasks=tasks.jsonl")
    return name, value


def _table(use: str, findings: Sequence[Finding]) -> Table:
    table = Table(title=use)
    for column in ("check", "", "found"):
        table.add_column(column)
    for finding in findings:
        colour = COLOURS[finding.state]
        table.add_row(finding.check, f"[{colour}]{finding.state}[/]", finding.found)
    return table
