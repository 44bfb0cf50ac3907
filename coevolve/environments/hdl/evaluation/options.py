"""The options of `coevolve evaluate` for hardware designs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coevolve.environments.hdl.needs import require_slang
from coevolve.environments.sdk import EvaluationRequest, OwnEvaluation, url_of

if TYPE_CHECKING:
    from rich.console import Group

    from coevolve.environments.hdl.evaluation.benchmark import BenchmarkReport
    from coevolve.environments.hdl.evaluation.table import Report

ABOUT = (
    "Compares ways of writing testbenches: simulator pass, Pass@1 and Pass@5 at each design's "
    "threshold, average coverage and the share of mutants that are killed, with paired bootstrap "
    "intervals over designs, separately for seen and held-out designs. With --endpoint, the model "
    "behind an OpenAI-compatible server writes them."
)

COUNT = click.IntRange(1, 1_000_000)

OPTIONS = (
    click.Option(
        ["--endpoint"],
        default="",
        metavar="URL",
        callback=url_of,
        help="Score a model behind this server.",
    ),
    click.Option(["--model"], default="", metavar="NAME", help="The endpoint's model."),
    click.Option(
        ["--key-variable"],
        default="",
        help="Variable with the endpoint's key; default: OPENAI_API_KEY, which may be unset.",
    ),
    click.Option(
        ["--answer-tokens"], type=COUNT, default=8192, help="The endpoint's longest answer."
    ),
    click.Option(
        ["--usd-per-million"],
        type=(float, float),
        default=(0.0, 0.0),
        metavar="PROMPT ANSWER",
        help="The endpoint's prices.",
    ),
    click.Option(["--rules"], is_flag=True, help="Tell the endpoint LLM4Cov's rules of syntax."),
    click.Option(
        ["--form"],
        type=click.Choice(("testbench", "patch", "stimulus")),
        help="What the endpoint writes.",
    ),
    click.Option(
        ["--temperature"],
        type=click.FloatRange(0, 100),
        help="Sampling temperature; default for a policy: evaluation_temperature, or "
        "rollout.temperature if that is 0.",
    ),
    click.Option(
        ["--designs"],
        type=click.Path(path_type=Path),
        help="Folder with one folder for each design.",
    ),
    click.Option(
        ["--split"],
        type=click.Choice(("all", "train", "held_out")),
        default="all",
        show_default=True,
        help="Which designs.",
    ),
    click.Option(
        ["--calls"],
        type=COUNT,
        help="Simulator calls of an attempt; default: evaluation_rounds.",
    ),
    click.Option(["--attempts"], type=COUNT, default=5, help="Attempts; default: 5 at a design."),
    click.Option(
        ["--seed"],
        type=click.IntRange(0, 1_000_000),
        default=0,
        show_default=True,
        help="Of attempts.",
    ),
    click.Option(
        ["--benchmark"],
        type=(click.Choice(("cvdp_ecov",)), click.Path(path_type=Path, dir_okay=False)),
        metavar="cvdp_ecov FILE",
        help="Score on the items of FILE, counted as LLM4Cov's release does.",
    ),
    click.Option(
        ["--baselines/--no-baselines"],
        default=True,
        help="Generators without a model; not for --benchmark.",
    ),
    click.Option(
        ["--bugs/--no-bugs"],
        default=True,
        help="Mutants; each is compiled once; not for --benchmark.",
    ),
)


def check(*, endpoint: str, model: str, form: str | None, rules: bool, **others: Any) -> None:
    """Refuse options that do not go together. Raises UsageError."""
    designs = others["designs"] or others["split"] != "all"
    for wrong, fault in (
        (bool(endpoint) != bool(model), "--endpoint and --model go together"),
        (
            not endpoint and (form or rules),
            "--form and --rules are for an --endpoint; a policy writes as it is trained to",
        ),
        (
            bool(others["benchmark"] and form == "stimulus"),
            "--benchmark counts testbenches; leave --form stimulus out",
        ),
        (
            bool(others["benchmark"] and designs),
            "--benchmark has designs of its own; leave --designs and --split out",
        ),
    ):
        if wrong:
            raise click.UsageError(fault)


def evaluate(
    request: EvaluationRequest, benchmark: tuple[str, Path] | None, **options: Any
) -> "tuple[Report | BenchmarkReport, Group]":
    """Return the report and its tables. Raises CoevolveError and UsageError."""
    if not options["endpoint"]:
        if request.config is None:
            raise click.UsageError("give a RUN, --config or --endpoint")
        request.check()
    require_slang()
    # Imported here, because they need the RTL parser.
    from coevolve.environments.hdl.evaluation.benchmark import evaluate_benchmark
    from coevolve.environments.hdl.evaluation.evaluate import Options, evaluate

    if benchmark is not None:
        return evaluate_benchmark(request, Options(**options), benchmark[1])
    return evaluate(request, Options(**options))


EVALUATION = OwnEvaluation(about=ABOUT, options=OPTIONS, check=check, evaluate=evaluate)
