"""Arguments and options that several commands have."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from coevolve.base.import_guard import CODE, open_code
from coevolve.launcher.jobs import in_job, lasting

FOLDER = click.Path(path_type=Path)


def _lasting(context: click.Context, parameter: click.Parameter, runs: Path) -> Path:
    del context, parameter
    return lasting(runs)


runs_option = click.option(
    "--runs",
    type=FOLDER,
    default=Path("runs"),
    show_default=True,
    callback=_lasting,
    help="Folder of all runs; in a Ray job relative to the home folder.",
)


def _opened(context: click.Context, parameter: click.Parameter, folder: Path | None) -> None:
    del context, parameter
    if folder is not None:
        open_code(folder)


code_option = click.option(
    "--code",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    envvar=CODE,
    callback=_opened,
    expose_value=False,
    is_eager=True,
    help="Folder from which the run's own class may be imported; default: none, because a run's "
    "folder may come from a stranger.",
)
"""For commands on a run's folder, which names modules that its reader may not have chosen."""


def opening_code(context: click.Context, parameter: click.Parameter, named: str | None) -> Any:
    """Import also from the working folder, because the user names a run file or a class."""
    del context, parameter
    if named is not None:
        open_code(Path.cwd())
    return named


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def port_option(default: int) -> Callable[[Any], Any]:
    """Return the option for the port that a command's server listens on."""
    return click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=default,
        show_default=True,
        help="Port to listen on; 0: a free one.",
    )


detach_option = click.option(
    "--detach", is_flag=True, help="Return when the run has begun; it continues without a terminal."
)

keep_option = click.option(
    "--keep",
    is_flag=True,
    help="Resume by itself whenever the run loses Ray, a node or its own process.",
)

UNITS_S = {"s": 1, "m": 60, "h": 3600}


def _seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> float:
    """Return a length of time in seconds; infinity for none. Raises BadParameter."""
    del context
    if text is None:
        return math.inf
    parts = re.fullmatch(r"([1-9]\d{0,8})([smh])", text)
    if parts is None:
        needs = f"needs a number with s, m or h, for example 10m, found {text!r}"
        raise click.BadParameter(needs, param=parameter)
    return int(parts[1]) * UNITS_S[parts[2]]


for_option = click.option(
    "--for",
    "for_s",
    metavar="TIME",
    callback=_seconds,
    help="Stop after this time, such as 10m, as Ctrl-C does; `coevolve resume` continues the run.",
)


def for_words(for_s: float) -> tuple[str, ...]:
    """Return the words that give another command the same `for_option`."""
    return () if math.isinf(for_s) else ("--for", f"{for_s:.0f}s")


def refuse_in_job() -> None:
    """Refuse to detach a run from a Ray job, which would end, and its files with it."""
    if in_job():
        raise click.UsageError("a Ray job runs without a terminal already; leave --detach out")


def run_argument(*, required: bool = False) -> Callable[[Any], Any]:
    """Return the argument RUN: a run's folder, or its name under the folder of all runs."""
    return click.argument(
        "run", required=required, metavar="RUN" if required else "[RUN]", shell_complete=_runs
    )


def run_arguments() -> Callable[[Any], Any]:
    """Return the argument RUN, any number of times."""
    return click.argument("run", nargs=-1, metavar="[RUN]...", shell_complete=_runs)


def run_file_argument(*, required: bool = True, unless: str = "") -> Callable[[Any], Any]:
    """Return the argument FILE: a run file, or the name of one that coevolve carries.

    With the flag ``unless``, which has to be eager, the word is no run file.
    """

    def opened(context: click.Context, parameter: click.Parameter, named: str | None) -> Any:
        return named if context.params.get(unless) else opening_code(context, parameter, named)

    return click.argument(
        "run_file",
        required=required,
        metavar="FILE" if required else "[FILE]",
        callback=opened,
        shell_complete=_run_files,
    )


overrides_argument = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")


def version_of(context: click.Context, parameter: click.Parameter, text: str) -> str:
    """Return the policy version that an option names. Raises BadParameter for other words."""
    del context
    if text not in ("newest", "best") and not text.isdecimal():
        raise click.BadParameter(f"needs a number, newest or best, found {text!r}", param=parameter)
    return text


def _version_or_none(context: click.Context, parameter: click.Parameter, text: str | None) -> str:
    return "" if text is None else version_of(context, parameter, text)


def served_options(command: Any) -> Any:
    """Add what `coevolve serve` and `coevolve chat` need to know of a policy."""
    for add in (
        click.option(
            "--temperature",
            type=click.FloatRange(min=0),
            help="Temperature; default: the run's rollout.temperature. 0: greedy.",
        ),
        click.option(
            "--version",
            callback=_version_or_none,
            help="Policy version of RUN: N|newest|best; default: newest.",
        ),
        click.argument("policy", metavar="RUN|MODEL", shell_complete=_runs),
    ):
        command = add(command)
    return command


def _runs(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    del parameter
    root = Path(context.params.get("runs") or "runs")
    names = sorted(path.parent.name for path in root.glob("*/run.json"))
    return [*_begins(names, begun), CompletionItem(begun, type="dir")]


def _run_files(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    del context, parameter
    from coevolve.base.shipped import configs

    names = sorted(path.stem for path in configs().glob("*.yaml"))
    return [*_begins(names, begun), CompletionItem(begun, type="file")]


def _begins(names: list[str], begun: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(begun)]
