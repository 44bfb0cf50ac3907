"""The program ``coevolve COMMAND ...``.

Each command has its own module, which imports the command's dependencies only when the command
runs. Every ``--help`` is therefore fast and works without them.
"""

import sys
from collections.abc import Sequence

import click

from coevolve.cli.boundary import carried_out
from coevolve.cli.lazy_group import LazyGroup

COMMANDS = {
    "start": "Train a small model on your own tools: one command, from nothing.",
    "launch": "Start a run and stay with it until it ends.",
    "resume": "Continue a run that was stopped or killed.",
    "attach": "Look into a run from another terminal, and steer it.",
    "report": "Write a run's report, one self-contained HTML page.",
    "board": "Show the runs in a folder in a web browser, live.",
    "export": "Write a run's weights or tables into a new folder.",
    "evaluate": "Score a policy on held-out tasks.",
    "serve": "Serve a trained policy, or a model, to any OpenAI client.",
    "chat": "Talk to a trained policy, or a model.",
    "audit": "Check that a run lost nothing and did nothing twice.",
    "replay": "Take a run's learner steps again and compare the weights.",
    "journal": "Find and repair damage of a run's journal.",
    "compare": "Compare arms over paired seeds: runs, contrasts, what could be seen.",
    "calibrate": "Measure what signal rules find and raise by chance.",
    "config": "List, show, explain and check run files.",
    "explain": "Say what a metric means.",
    "environment": "List, check or begin environments.",
    "model": "List and fetch small chat models to begin with.",
    "endpoint": "Serve a stand-in for a model that makes tasks.",
    "setup": "Install what an environment needs.",
    "docs": "Read the pages about coevolve.",
    "completion": "Print the completion script of a shell.",
}
"""Name of a command -> its description; the module of that name in `coevolve.cli` declares it."""

EXIT_CODES = """\b
Exit codes:
  0    the command did what it says
  1    it was refused or failed; one message on stderr says why
  2    the command line cannot be read
  75   the run lost Ray, a node or a part; `coevolve resume` continues it
  130  it was interrupted
Where a command compares or grades, its own --help says what 1 means.
"""


@click.command(
    cls=LazyGroup,
    commands_of="coevolve.cli",
    table=COMMANDS,
    with_environments=True,
    epilog=EXIT_CODES,
)
@click.version_option(package_name="coevolve", message="%(prog)s %(version)s")
def coevolve() -> None:
    """Train LLM agents in a closed loop of a policy and its training data.

    Begin with: coevolve launch quickstart
    """


def main(words: Sequence[str] | None = None) -> int:
    """Execute ``words``, or the process's command line; return the exit code."""
    return carried_out(coevolve, sys.argv[1:] if words is None else words, "coevolve")


def door(name: str) -> int:
    """Execute ``python -m coevolve.NAME ...`` as ``coevolve NAME ...``; return the exit code."""
    command = coevolve.get_command(click.Context(coevolve), name)
    assert command is not None
    return carried_out(command, sys.argv[1:], f"python -m coevolve.{name}")
