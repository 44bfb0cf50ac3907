"""`coevolve evaluate`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from coevolve.cli.options import (
    code_option,
    json_option,
    opening_code,
    run_argument,
    runs_option,
    version_of,
)
from coevolve.environments.evaluation import own_evaluations


class EvaluateCommand(click.Command):
    """A command that also has the options with which environments evaluate in their own way."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own parameters, followed by those of environments."""
        own = [option for each in own_evaluations().values() for option in each.options]
        return [*super().get_params(ctx), *own]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those of each environment under its name."""
        with formatter.section("Options"):
            _write(super().get_params(ctx), ctx, formatter)
        for use, each in own_evaluations().items():
            with formatter.section(f"Environment {use}"):
                formatter.write_text(each.about)
                formatter.write_paragraph()
                _write(each.options, ctx, formatter)


def _write(
    parameters: Sequence[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    options = (each for each in parameters if isinstance(each, click.Option))
    records = (each.get_help_record(ctx) for each in options)
    formatter.write_dl([each for each in records if each])


@click.command(cls=EvaluateCommand, name="evaluate")
@run_argument()
@runs_option
@code_option
@click.option(
    "--version",
    default="newest",
    show_default=True,
    callback=version_of,
    help="Policy version of RUN: N|newest|best.",
)
@click.option(
    "--config",
    metavar="FILE",
    callback=opening_code,
    help="Score the model that this run file starts from.",
)
@click.option(
    "--fresh",
    type=click.IntRange(min=1),
    metavar="N",
    help="Score also N new instances of held-out and of trained tasks.",
)
@click.option(
    "--fresh-seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed of --fresh.",
)
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
    fresh: int | None,
    fresh_seed: int,
    **own: Any,
) -> None:
    """Score a policy on held-out tasks.

    RUN is a run's folder or its name. With --config, the policy is the model that the run file
    starts from.

    With --fresh, tasks are also scored under other names, which no run has seen. The instance gap
    is the success on tasks minus that on their instances; what was memorized is the gap of the
    tasks that the run trained on, minus that of held-out tasks.

    Some environments evaluate in their own way, with further options.
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
            fresh=fresh or 0,
            seed=fresh_seed,
            own=own,
            given=given,
        )
    )
