"""`coevolve evaluate`."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import click
from click.core import ParameterSource

from coevolve.cli.options import (
    code_option,
    json_option,
    opening_code,
    run_arguments,
    runs_option,
    version_of,
)
from coevolve.environments.evaluation import own_evaluations

Which = Literal["all", "held_out", "train"]

ATTEMPTS = 4
"""Attempts at each task of an environment."""


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
@run_arguments()
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
    "--environment",
    metavar="CLASS",
    callback=opening_code,
    help="Score on the tasks of this environment, with settings NAME=VALUE in place of RUN.",
)
@click.option(
    "--policy",
    metavar="NAME|FOLDER",
    help="With --environment: the model; fetched if it is not there.",
)
@click.option(
    "--tasks",
    "which",
    type=click.Choice(("all", "held_out", "train")),
    default="held_out",
    show_default=True,
    help="With --environment or --attempts: which tasks.",
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
    run: tuple[str, ...],
    runs: Path,
    version: str,
    config: str | None,
    environment: str | None,
    policy: str | None,
    which: Which,
    as_json: bool,
    fresh: int | None,
    fresh_seed: int,
    **own: Any,
) -> None:
    """Score a policy on held-out tasks, or a model on the tasks of an environment.

    RUN is a run's folder or its name. With --config, the policy is the model that the run file
    starts from.

    With --attempts K, where the policy calls tools, it attempts each task K times: prints pass@1
    and pass@k by tool, and why attempts failed, and writes the conversations. Attempts sample at
    rollout.temperature, or at --temperature; 0 is greedy, as scores are.

    With --environment CLASS, the model of --policy, or the one behind --endpoint URL --model NAME,
    does the same (4 attempts); NAME=VALUE is a setting, such as tasks=tasks.jsonl. --key-variable
    goes with it, too.

    With --fresh, tasks are also scored under other names, which no run has seen. The instance gap
    is the success on tasks minus that on their instances; what was memorized is the gap of the
    tasks that the run trained on, minus that of held-out tasks.

    Some environments evaluate in their own way, with further options.
    """
    given = _given(context, own)
    if environment:
        if config or fresh:
            raise click.UsageError("--config and --fresh do not go with --environment")
        _in_environment(environment, run, policy, which, own, given, as_json=as_json)
        return
    if policy:
        raise click.UsageError("--policy needs --environment")
    from coevolve.commands.evaluate import Options, evaluate

    evaluate(
        Options(
            run=_one(run, config),
            runs=runs,
            version=version,
            config=config,
            as_json=as_json,
            fresh=fresh or 0,
            seed=fresh_seed,
            which=which,
            own=own,
            given=given,
        )
    )


def _given(context: click.Context, own: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the options that the user gave."""
    given = ParameterSource.COMMANDLINE
    return frozenset(name for name in own if context.get_parameter_source(name) is given)


def _one(run: tuple[str, ...], config: str | None) -> str | None:
    """Return the run, if one is named. Raises UsageError."""
    if len(run) > 1:
        raise click.UsageError(f"needs one RUN, found {len(run)}")
    if run and config:
        raise click.UsageError("RUN has its own settings; leave --config out")
    return run[0] if run else None


def _in_environment(
    use: str,
    settings: tuple[str, ...],
    policy: str | None,
    which: Which,
    own: Mapping[str, Any],
    given: Container[str],
    *,
    as_json: bool,
) -> None:
    """Score a model on an environment's tasks. Raises CoevolveError and UsageError."""
    endpoint = (str(own["endpoint"]), str(own["model"])) if "endpoint" in given else None
    if (endpoint is None) == (policy is None):
        raise click.UsageError("--environment needs either --policy, or --endpoint with --model")
    if endpoint is not None and not endpoint[1]:
        raise click.UsageError("--endpoint and --model go together")
    from coevolve.commands.evaluate_environment import Subject, evaluate_environment

    evaluate_environment(
        Subject(
            use=use,
            settings=settings,
            policy=policy or "",
            endpoint=endpoint,
            key_variable=own["key_variable"] if "key_variable" in given else "",
            temperature=own["temperature"] if "temperature" in given else None,
            attempts=own["attempts"] if "attempts" in given else ATTEMPTS,
            which=which,
            as_json=as_json,
        )
    )
