"""`coevolve evaluate`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from coevolve.cli.options import json_option, run_argument, runs_option, version_of


class EvaluateCommand(click.Command):
    """A command that also has the options with which environments evaluate in their own way."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own parameters, followed by those of environments."""
        own = [each for options in _own_options().values() for each in options]
        return [*super().get_params(ctx), *own]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those of each environment under its name."""
        groups: dict[str, list[click.Parameter]] = {"Options": super().get_params(ctx)}
        for use, options in _own_options().items():
            groups[f"Options of environment {use}"] = [*options]
        for title, parameters in groups.items():
            with formatter.section(title):
                options = (each for each in parameters if isinstance(each, click.Option))
                records = (each.get_help_record(ctx) for each in options)
                formatter.write_dl([each for each in records if each])


def _own_options() -> Mapping[str, tuple[click.Option, ...]]:
    from coevolve.environments.evaluation import own_evaluations

    return {use: each.options for use, each in own_evaluations().items()}


@click.command(cls=EvaluateCommand, name="evaluate")
@run_argument()
@runs_option
@click.option(
    "--version",
    default="newest",
    show_default=True,
    callback=version_of,
    help="Policy version of RUN: N|newest|best.",
)
@click.option("--config", metavar="FILE", help="Score the model that this run file starts from.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    run: str | None,
    runs: Path,
    version: str,
    config: str | None,
    as_json: bool,
    **own: Any,
) -> None:
    """Score a policy on held-out tasks.

    RUN is a run's folder or its name. With --config, the policy is the model that the run file
    starts from.

    An environment may evaluate in its own way. On hardware designs this compares ways of writing
    testbenches: simulator pass, Pass@1 and Pass@5 at each design's threshold, average coverage and
    the share of mutants that are killed, with paired bootstrap intervals over designs, separately
    for seen and held-out designs. There, --endpoint scores a model behind an OpenAI-compatible
    server.
    """
    if run and config:
        raise click.UsageError("RUN has its own settings; leave --config out")
    from coevolve.commands.evaluate import Options, evaluate

    given = frozenset(
        name for name in own if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    )
    evaluate(
        Options(
            run=run,
            runs=runs,
            version=version,
            config=config,
            as_json=as_json,
            own=own,
            given=given,
        )
    )
