"""Checks an environment, or begins one: `python -m coevolve.environment check USE`.

``check USE`` measures whether an environment keeps what it promises, and which of the
loop's abilities it has. USE is a built-in name or ``package.module:Class`` of your own. Exits 0 if
nothing fails, 1 otherwise. ``init FOLDER`` writes a working example with tasks, run file and test.
"""

import argparse
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
from coevolve.environments.registry import config_of, environment_of
from coevolve.parts import logs
from coevolve.yaml_text import NOT_YAML, parse_yaml, yaml_fault
from protocols.config import RunConfig
from protocols.errors import CoevolveError, RunError

COLOURS = {"holds": "green", "fails": "red", "absent": "yellow"}

EXAMPLE = Path(example.__file__).parent


def check(use: str, settings: Sequence[str], *, most: int, as_json: bool) -> bool:
    """Print the findings; return whether nothing failed. Raises ConfigError and RunError."""
    config = config_of({"use": use} | dict(map(_setting, settings)))
    findings = asyncio.run(_findings(config, most))
    if as_json:
        sys.stdout.write(json.dumps(msgspec.to_builtins(findings), indent=2) + "\n")
    else:
        Console().print(_table(use, findings))
    return all(finding.state != "fails" for finding in findings)


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
        "  python -m coevolve.environment check todo:Todo tasks=tasks.jsonl\n"
        "  python -m coevolve.launch run.yaml\n"
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


def main(words: Sequence[str] | None = None) -> None:
    """Parse the command line, or ``words`` in its place, and check or begin."""
    parser = argparse.ArgumentParser(prog="python -m coevolve.environment", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", help="measure whether it keeps what it promises")
    checking.add_argument("use", help="a built-in name, or package.module:Class of your own")
    checking.add_argument("settings", nargs="*", metavar="name=value", help="tasks=tasks.jsonl ...")
    checking.add_argument("--most", type=int, default=100, help="tasks of each split, at most")
    checking.add_argument("--json", action="store_true", help="print JSON")
    beginning = commands.add_parser("init", help="write a working example")
    beginning.add_argument("folder", type=Path)
    options = parser.parse_args(words)
    logs.to_errors()
    try:
        if options.command == "init":
            init(options.folder)
        elif not check(options.use, options.settings, most=options.most, as_json=options.json):
            sys.exit(1)
    except CoevolveError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        sys.exit(1)
