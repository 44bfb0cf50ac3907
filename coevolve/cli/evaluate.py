"""`coevolve evaluate`."""

from typing import Any

import click
from click.core import ParameterSource

from coevolve.cli.options import FOLDER, json_option, run_argument, runs_option, url_of, version_of

COUNT = click.IntRange(1, 1_000_000)


@click.command(name="evaluate")
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
@click.option(
    "--endpoint",
    default="",
    metavar="URL",
    callback=url_of,
    help="Score a model behind this server.",
)
@click.option("--model", default="", metavar="NAME", help="The endpoint's model.")
@click.option(
    "--key-variable",
    default="",
    help="Variable with the endpoint's key; default: OPENAI_API_KEY, which may be unset.",
)
@click.option("--answer-tokens", type=COUNT, default=8192, help="The endpoint's longest answer.")
@click.option(
    "--usd-per-million",
    type=(float, float),
    default=(0.0, 0.0),
    metavar="PROMPT ANSWER",
    help="The endpoint's prices.",
)
@click.option("--rules", is_flag=True, help="Tell the endpoint LLM4Cov's rules of syntax.")
@click.option(
    "--form",
    type=click.Choice(("testbench", "patch", "stimulus")),
    help="What the endpoint writes.",
)
@click.option("--temperature", type=click.FloatRange(0, 100), help="Sampling temperature.")
@click.option("--designs", type=FOLDER, help="Folder with one folder for each design.")
@click.option(
    "--split",
    type=click.Choice(("all", "train", "held_out")),
    default="all",
    show_default=True,
    help="Which designs.",
)
@click.option(
    "--calls", type=COUNT, help="Simulator calls of an attempt; default: evaluation_rounds."
)
@click.option("--attempts", type=COUNT, default=5, show_default=True, help="Attempts at a design.")
@click.option(
    "--seed", type=click.IntRange(0, 1_000_000), default=0, show_default=True, help="Of attempts."
)
@click.option("--baselines/--no-baselines", default=True, help="Generators without a model.")
@click.option("--bugs/--no-bugs", default=True, help="Mutants; each is compiled once.")
@json_option
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Score a policy on held-out tasks.

    RUN is a run's folder or its name. With --config the model is scored that the run file starts
    from; with --endpoint a model behind an OpenAI-compatible server, on hardware designs.

    On hardware designs this compares ways of writing testbenches: simulator pass, Pass@1 and Pass@5
    at each design's threshold, average coverage and the share of mutants that are killed, with
    paired bootstrap intervals over designs, separately for seen and held-out designs. The options
    from --endpoint on are for designs alone. If environment.evaluation_temperature is 0 and
    --temperature is not given, rollout.temperature is used.
    """
    _check(**options)
    from coevolve.commands.evaluate import Options, evaluate

    given = frozenset(
        name
        for name in options
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    )
    evaluate(Options(**options, given=given))


def _check(
    *,
    run: str | None,
    config: str | None,
    endpoint: str,
    model: str,
    form: str | None,
    rules: bool,
    **others: Any,
) -> None:
    """Refuse options that do not go together. Raises UsageError."""
    del others
    for wrong, fault in (
        (not (run or config or endpoint), "give a RUN, --config or --endpoint"),
        (run and config, "RUN has its own settings; leave --config out"),
        (bool(endpoint) != bool(model), "--endpoint and --model go together"),
        (
            not endpoint and (form or rules),
            "--form and --rules are for an --endpoint; a policy writes as it is trained to",
        ),
    ):
        if wrong:
            raise click.UsageError(fault)
