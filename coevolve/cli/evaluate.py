"""Compares ways of writing testbenches on designs: ``python -m coevolve.evaluate RUN``.

RUN is a run's folder, or its name under ``runs/``, and its policy writes, alone and read-only; with
``--config`` the model that a run file's run would start from; with ``--endpoint`` a model behind an
OpenAI-compatible server, under the settings of RUN or ``--config`` where one is given.

Every attempt has ``--calls`` calls of the simulator. It is *agentic*, a chain of improvements, or
*direct*, the best of as many first testbenches (`hdl.evaluation.attempts`); generators
without a model have as many calls. Told are simulator pass, Pass@1 and Pass@5 at each design's
threshold, average coverage, and the share of the designs' mutants that the testbenches kill, with
paired bootstrap intervals over designs (`hdl.evaluation.measures`), seen and held-out
designs apart. The same seed gives the same numbers, but for rounding in an engine that batches, and
for endpoints, which draw by themselves.

A policy of another environment is scored as its run scores it, on the tasks that are held out; of
the options RUN, ``--version``, ``--config`` and ``--json`` are for it.

Greedy attempts would all be alike: if ``environment.evaluation_temperature`` is 0 and
``--temperature`` is not given, ``rollout.temperature`` is used.
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console, Group

from coevolve.build import parts as build
from coevolve.cli import preflight as requirements
from coevolve.cli.subjects import (
    AtEndpoint,
    OfRun,
    OfRunFile,
    Subject,
    opened,
    opened_policy,
    opened_simulator,
)
from coevolve.config import load_config
from coevolve.environments.hdl import parts as hardware
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.needs import require_slang
from coevolve.environments.hdl.settings import hdl_settings, with_hdl
from coevolve.environments.settings import section
from coevolve.llm.keys import check_key
from coevolve.run import directory as run_directory
from coevolve.run.display import score_tables
from coevolve.run.progress import Progress
from protocols.config import EvaluatorConfig, RunConfig
from protocols.errors import CoevolveError, ConfigError
from protocols.learning import Evaluation
from protocols.synthesizers import EndpointModel

if TYPE_CHECKING:
    from coevolve.environments.hdl.evaluation.attempts import Budget
    from coevolve.environments.hdl.evaluation.table import Report

ENDPOINT_CONCURRENT = 8
"""Attempts at a time where no run file says."""

ENDPOINT_TEMPERATURE = 0.7
"""LLM4Cov's."""

GENERAL = ("run", "runs", "version", "config", "json")
"""Options for policies of every environment."""

MOST = 1_000_000
HOTTEST = 100


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line asks for."""

    subject: Subject
    config: RunConfig
    designs: tuple[Design, ...]
    budget: "Budget"
    temperature: float
    with_baselines: bool
    with_bugs: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluate and print; return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not (options.run or options.config or options.endpoint):
        parser.error("give a RUN, --config or --endpoint")
    if options.run and options.config:
        parser.error("RUN has its own settings; leave --config out")
    if bool(options.endpoint) != bool(options.model):
        parser.error("--endpoint and --model go together")
    if not options.endpoint and (options.form or options.rules):
        parser.error(
            "--form and --rules are for an --endpoint; a policy writes as it is trained to"
        )
    try:
        config = _config(options)
        if config.uses == "hdl":
            require_slang()
            from coevolve.environments.hdl.evaluation.table import tables

            report = asyncio.run(_evaluated(_asked(options, config)))
            printed = tables(report)
        else:
            _check_general(options, parser, config)
            report, printed = asyncio.run(_scored(_policy(options), config))
    except CoevolveError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        return 1
    if options.json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(printed)
    return 0


def _parser() -> argparse.ArgumentParser:
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.evaluate",
        description=summary,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("run", nargs="?", metavar="RUN", help="a run's folder or name")
    add("--runs", type=Path, default=Path("runs"), help="folder of all runs")
    add("--version", default="newest", metavar="N|newest|best", help="policy version of RUN")
    add("--config", type=Path, metavar="FILE", help="a run file, see configs/")
    add("--endpoint", default="", metavar="URL", help="for example http://127.0.0.1:8000/v1")
    add("--model", default="", metavar="NAME", help="of the endpoint")
    add("--key-variable", default="", help="environment variable with its key")
    add("--answer-tokens", type=int, default=8192, help="its longest answer")
    add("--usd-per-million", type=float, nargs=2, default=(0.0, 0.0), metavar=("PROMPT", "ANSWER"))
    add("--rules", action="store_true", help="tell it rules of syntax, as LLM4Cov tells teachers")
    add("--form", choices=("testbench", "patch", "stimulus"), help="what an endpoint writes")
    add("--temperature", type=float, help="of sampling")
    add("--designs", type=Path, metavar="FOLDER", help="one folder a design")
    add("--split", choices=("all", "train", "held_out"), default="all")
    add("--calls", type=int, help="of the simulator, each attempt (default: evaluation_rounds)")
    add("--attempts", type=int, default=5, help="at each design")
    add("--seed", type=int, default=0)
    switch = argparse.BooleanOptionalAction
    add("--baselines", action=switch, default=True, help="generators without a model")
    add("--bugs", action=switch, default=True, help="mutants, one compilation each")
    add("--json", action="store_true", help="print one JSON object")
    return parser


def _check_general(
    options: argparse.Namespace, parser: argparse.ArgumentParser, config: RunConfig
) -> None:
    """Refuse options that are for designs alone. Raises ConfigError."""
    for name, found in vars(options).items():
        if name not in GENERAL and found != parser.get_default(name):
            raise ConfigError(
                f"--{name.replace('_', '-')}: is for hardware designs (environment hdl), found "
                f"environment {config.uses}; leave it out"
            )


def _asked(options: argparse.Namespace, config: RunConfig) -> Asked:
    from coevolve.environments.hdl.evaluation.attempts import Budget

    _check_numbers(options)
    hdl = hdl_settings(config)
    designs = tuple(
        each for each in hardware.designs(config) if options.split in ("all", each.file.split)
    )
    if not designs:
        raise ConfigError(
            f"--split {options.split}: the folder of designs holds none of it; give another, or all"
        )
    temperature = _temperature(options, config)
    return Asked(
        subject=_subject(options, temperature),
        config=config,
        designs=designs,
        budget=Budget(
            calls=options.calls or hdl.evaluation_rounds,
            attempts=options.attempts,
            seed=options.seed,
            keeps_best=hdl.memory == "best",
        ),
        temperature=temperature,
        with_baselines=options.baselines,
        with_bugs=options.bugs,
    )


def _check_numbers(options: argparse.Namespace) -> None:
    limits = {
        "calls": (1, MOST),
        "attempts": (1, MOST),
        "seed": (0, MOST),
        "temperature": (0, HOTTEST),
    }
    for name, (least, most) in limits.items():
        found = getattr(options, name)
        if found is not None and not least <= found <= most:
            raise ConfigError(f"--{name}: needs {least} to {most}, found {found}")


def _config(options: argparse.Namespace) -> RunConfig:
    """Return the settings that everybody is evaluated under."""
    if options.run:
        config = run_directory.find(options.run, options.runs).config()
    elif options.config:
        config = load_config(options.config)
        if not options.endpoint:
            requirements.check(config)
    else:
        few = EvaluatorConfig(concurrent=ENDPOINT_CONCURRENT)
        config = RunConfig(name="endpoint", environment=section("hdl"), evaluator=few)
    if config.uses != "hdl":
        return config
    changes = {"designs": str(options.designs)} if options.designs else {}
    changes |= {"form": options.form} if options.form else {}
    return with_hdl(config, msgspec.structs.replace(hdl_settings(config), **changes))


def _temperature(options: argparse.Namespace, config: RunConfig) -> float:
    if options.temperature is not None:
        return options.temperature
    if options.endpoint:
        return ENDPOINT_TEMPERATURE
    return hdl_settings(config).evaluation_temperature or config.rollout.temperature


def _subject(options: argparse.Namespace, temperature: float) -> Subject:
    if options.endpoint:
        prompt_price, answer_price = options.usd_per_million
        model = {
            "kind": "endpoint",
            "base_url": options.endpoint,
            "model": options.model,
            "key_variable": options.key_variable,
            "temperature": temperature,
            "max_answer_tokens": options.answer_tokens,
            "usd_per_million_prompt_tokens": prompt_price,
            "usd_per_million_answer_tokens": answer_price,
        }
        try:
            endpoint = msgspec.convert(model, EndpointModel)
        except msgspec.ValidationError as error:
            raise ConfigError(f"--endpoint: {error}") from error
        check_key(endpoint, "--key-variable")
        return AtEndpoint(model=endpoint, rules=options.rules)
    return _policy(options)


def _policy(options: argparse.Namespace) -> OfRun | OfRunFile:
    if options.run:
        return OfRun(run_directory.find(options.run, options.runs), options.version)
    return OfRunFile()


async def _evaluated(asked: Asked) -> "Report":
    from coevolve.environments.hdl.evaluation.bugs import BugJudge
    from coevolve.environments.hdl.evaluation.comparing import Comparison
    from coevolve.environments.hdl.evaluation.table import Report, Settings, cost_of, summed_up
    from coevolve.environments.hdl.policy.frontier import beginning
    from coevolve.environments.hdl.simulate.verilator import open_simulator

    verilator = open_simulator()
    judge = BugJudge(verilator, hdl_settings(asked.config).limits)
    async with (
        opened_simulator(asked.config) as simulator,
        opened(asked.subject, asked.config, simulator, asked.temperature) as subject,
    ):
        designs = await Comparison(
            writer=subject.writer,
            simulator=simulator,
            judge=judge if asked.with_bugs else None,
            budget=asked.budget,
            limits=hdl_settings(asked.config).limits,
            concurrent=asked.config.evaluator.concurrent,
            with_baselines=asked.with_baselines,
            tell=_tell,
        ).run([(design, beginning(design, asked.config)) for design in asked.designs])
    budget, hdl = asked.budget, hdl_settings(asked.config)
    return Report(
        settings=Settings(
            writer=subject.name,
            form=hdl.form,
            calls=budget.calls,
            attempts=budget.attempts,
            seed=budget.seed,
            temperature=asked.temperature,
            memory=hdl.memory,
            toolchain=verilator.toolchain.identity,
        ),
        splits=summed_up(designs, budget.seed),
        designs=designs,
        cost=subject.usage and cost_of(subject.usage),
    )


async def _scored(
    subject: OfRun | OfRunFile, config: RunConfig
) -> tuple[Mapping[str, object], Group]:
    """Score a policy as its run's evaluator does; return that, and what a person is shown."""
    async with opened_policy(subject, config) as policy:
        scores = await build.scores(policy.context, policy.version)
    number = policy.version.version if policy.version is not None else 0
    progress = Progress(build.labels(config))
    progress.fold(Evaluation(version=number, scores=scores, errors=0, wall_s=0.0))
    success = progress.evaluations[number]
    report = {"policy": policy.name, "success": success, "scores": scores}
    return report, Group(policy.name, *score_tables(progress))


def _tell(text: str) -> None:
    sys.stderr.write(f"coevolve: {text}\n")
