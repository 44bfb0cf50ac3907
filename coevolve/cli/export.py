"""`coevolve export`."""

import contextlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from coevolve.cli.lazy_group import nearest_hint, split_options
from coevolve.cli.options import FOLDER, code_option, run_argument, runs_option, version_of
from protocols.errors import CoevolveError

if TYPE_CHECKING:
    from coevolve.environments.interface import Environment
    from coevolve.export.exporter import Exporter
    from coevolve.history.directory import RunDirectory


class ExportGroup(click.Group):
    """A group with one command for each kind of export, also those of the run's environment."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Let the group's own option stand anywhere."""
        options, rest = split_options(args, ("--runs", "--code"))
        return super().parse_args(ctx, [*options, *rest])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every kind."""
        from coevolve.export.exporting import WEIGHTS

        return [*WEIGHTS, *_exporters(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a kind of export; None if there is no such kind."""
        from coevolve.export.exporting import WEIGHTS

        if cmd_name in WEIGHTS:
            return _weights_command(cmd_name, WEIGHTS[cmd_name])
        exporter = _exporters(ctx).get(cmd_name)
        return exporter and _data_command(cmd_name, exporter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the kind of the first word. Raises UsageError with the nearest name."""
        known = self.list_commands(ctx)
        if args[0] not in known and args[0][:1] != "-":
            ctx.fail(f"there is no export {args[0]!r}{nearest_hint(args[0], known)}")
        return super().resolve_command(ctx, args)


@click.group(cls=ExportGroup, name="export", subcommand_metavar="WHAT --to DIR")
@run_argument(required=True)
@runs_option
@code_option
def command(run: str, runs: Path) -> None:
    """Write what a run made into a new folder.

    RUN is a run's folder or its name. The run may be running, and is not changed. If the command
    fails, it leaves no DIR.
    """
    del run, runs


def _exporters(context: click.Context) -> "Mapping[str, Exporter]":
    """Return the tables of all environments with a name, and of the run's, which win."""
    from coevolve.environments.registry import environment_to_read, environment_type, names

    found: dict[str, Exporter] = {}
    for use in names():
        with contextlib.suppress(CoevolveError):  # another's package that cannot be imported
            found.update(environment_type(use).exports)
    with contextlib.suppress(CoevolveError):  # said when the command is carried out
        if context.params.get("run"):
            found.update(environment_to_read(_directory(context).config()).exports)
    return found


_TO = click.Option(
    ["--to"], type=FOLDER, required=True, metavar="DIR", help="Folder to make; it must not exist."
)


def _repository(context: click.Context, option: click.Parameter, name: str) -> str:
    """Check the name of a repository. Raises BadParameter."""
    from coevolve.models.model_folder import HUB_ID

    del context, option
    if name and not HUB_ID.fullmatch(name):
        raise click.BadParameter(f"needs OWNER/NAME, found {name!r}")
    return name


_PUSH = click.Option(
    ["--push"],
    default="",
    metavar="OWNER/NAME",
    callback=_repository,
    help="Also upload DIR to this repository of the Hugging Face Hub; a new one is private.",
)


def _weights_command(name: str, about: str) -> click.Command:
    def write(*, to: Path, push: str, version: str) -> None:
        from coevolve.export.exporting import export_weights

        def export(run: "RunDirectory", of: "Environment", target: Path, place: str) -> str:
            if push and name == "adapter":
                from coevolve.export.hub import check_base

                check_base(run.config().policy)
            return export_weights(run, of, name, version, target, place=place)

        _export(to, push, "model", export)

    version = click.Option(
        ["--version"],
        default="newest",
        show_default=True,
        metavar="N|newest|best",
        callback=version_of,
        help="Policy version; best: by the guard's canary tasks, or half of the held-out ones.",
    )
    return click.Command(name, callback=write, params=[_TO, version, _PUSH], help=_sentence(about))


def _data_command(name: str, exporter: "Exporter") -> click.Command:
    def write(*, to: Path, push: str, **options: Any) -> None:
        from coevolve.export.exporting import export_data

        def export(run: "RunDirectory", of: "Environment", target: Path, place: str) -> str:
            return export_data(run, of, name, target, options, place=place)

        _export(to, push, "dataset", export)

    options = [
        click.Option(
            [f"--{option}"],
            type=click.Choice(choices),
            default=choices[0],
            show_default=True,
            help="See the table's README.md.",
        )
        for option, choices in exporter.options.items()
    ]
    return click.Command(
        name, callback=write, params=[_TO, *options, _PUSH], help=_sentence(exporter.about)
    )


def _export(
    to: Path,
    push: str,
    kind: Literal["model", "dataset"],
    write: "Callable[[RunDirectory, Environment, Path, str], str]",
) -> None:
    """Let ``write`` export the group's run to the folder, push it if asked, and print both."""
    from coevolve.environments.registry import environment_to_read

    group = click.get_current_context().parent
    assert group is not None
    directory, target = _directory(group), to.absolute()
    environment = environment_to_read(directory.config())
    if not push:
        done = write(directory, environment, target, target.name)
        sys.stdout.write(f"{target}: {done}\n")
        return
    from coevolve.export.hub import HubRepository

    repository = HubRepository(push, kind)
    repository.check_login()
    done = write(directory, environment, target, push)
    sys.stdout.write(f"{target}: {done}\n{repository.push(target, done)}\n")


def _directory(group: click.Context) -> "RunDirectory":
    from coevolve.history import finding

    return finding.find(group.params["run"], group.params["runs"])


def _sentence(about: str) -> str:
    return f"{about[:1].upper()}{about[1:]}."
