"""`coevolve chat`."""

from pathlib import Path

import click

from coevolve.cli.options import code_option, runs_option, served_options


@click.command(name="chat")
@served_options
@runs_option
@code_option
def command(policy: str, *, version: str, temperature: float | None, runs: Path) -> None:
    """Talk to a trained policy, or a model, line by line, until Ctrl-D.

    RUN is a run's folder or its name, MODEL a model's folder or ORG/NAME. Each line of standard
    input is a message, and its answer is printed. Limits of tokens are the run's.
    """
    from coevolve.commands.serve import Policy, chat

    chat(Policy(given=policy, runs=runs, version=version, temperature=temperature))
