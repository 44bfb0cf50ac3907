"""`coevolve start`."""

import re
from pathlib import Path

import click

from coevolve.cli.options import opening_code, overrides_argument, runs_option
from coevolve.llm.urls import url_of


def _endpoint(
    context: click.Context, parameter: click.Parameter, value: tuple[str, str] | None
) -> tuple[str, str] | None:
    if value is not None:
        url_of(context, parameter, value[0])
    return value


@click.command(name="start")
@click.argument("use", metavar="CLASS", callback=opening_code)
@click.argument("tasks")
@overrides_argument
@click.option(
    "--model",
    default="smollm2-135m",
    show_default=True,
    metavar="NAME|FOLDER",
    help="The model that learns; fetched if it is not there (`coevolve model list`).",
)
@click.option(
    "--synthesizer",
    type=(str, str),
    metavar="URL MODEL",
    callback=_endpoint,
    help="An OpenAI-compatible server and its model, which makes tasks.",
)
@click.option("--key-variable", default="", help="Variable with the server's key.")
@click.option("--name", default="", help="Name of the run; default: that of the class.")
@click.option(
    "--attempts",
    type=click.IntRange(1, 1000),
    default=4,
    show_default=True,
    help="Attempts at each task that is scored first.",
)
@click.option(
    "--sample",
    type=click.IntRange(1, 10_000),
    default=8,
    show_default=True,
    help="Training tasks that are scored first.",
)
@click.option("--steps", type=click.IntRange(min=1), help="Training steps; default: chosen.")
@click.option("--overwrite", is_flag=True, help="Replace a run file of this name.")
@click.option("--dry-run", is_flag=True, help="Score, write and print the run file, and stop.")
@runs_option
def command(
    use: str,
    tasks: str,
    overrides: tuple[str, ...],
    *,
    model: str,
    synthesizer: tuple[str, str] | None,
    key_variable: str,
    name: str,
    attempts: int,
    sample: int,
    steps: int | None,
    overwrite: bool,
    dry_run: bool,
    runs: Path,
) -> int:
    """Train a small model on your own tools: one command, from nothing.

    CLASS is package.module:Class of your own or the name of an environment with tools, TASKS its
    file of tasks. KEY=VALUE is a setting of the run, as for `coevolve launch`.

    The command fetches the model, scores it on some training tasks, measures lengths and speed,
    writes NAME.yaml with the settings for this machine and their reasons, and launches it.
    """
    from coevolve.commands.start import Request, endpoint_of, prepare

    request = Request(
        use=use,
        tasks=tasks,
        model=model,
        synthesizer=endpoint_of(synthesizer, key_variable),
        name=name or _name(use),
        run_file=Path(f"{name or _name(use)}.yaml"),
        attempts=attempts,
        sample=sample,
        steps=steps or 0,
        overwrite=overwrite,
        overrides=overrides,
        runs=runs,
    )
    run_file = prepare(request)
    if dry_run:
        click.echo(run_file.read_text())
        return 0
    return _launch(run_file, runs)


def _launch(run_file: Path, runs: Path) -> int:
    from coevolve.base.terminal import Terminal
    from coevolve.cli.launching import stay_with
    from coevolve.launcher.interrupts import end_at_once
    from coevolve.launcher.launch import settings
    from coevolve.screen import start as starting

    end_at_once("interrupted before the run began")
    with starting.StartScreen(Terminal(), f"coevolve launch {run_file}") as screen:
        screen.begin(starting.SETTINGS)
        return stay_with(settings(run_file, (), runs, resume=False), runs, screen, resume=False)


def _name(use: str) -> str:
    """Return the name of a run of this class: its last word, as a file may be called."""
    word = use.rpartition(":")[2].rpartition(".")[2]
    return re.sub(r"[^a-z0-9._-]", "", word.lower()).lstrip("._-") or "run"
