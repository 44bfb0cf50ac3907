"""Scores policies on hardware designs, or in other environments on the held-out tasks.

On designs, this module compares a policy with other writers of testbenches. Every attempt has the
same number of simulator calls. It is *agentic* (a chain of improvements) or *direct* (the best of
that many first testbenches); see `hdl.evaluation.attempts`. Generators without a model get the same
number of calls.
"""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console, Group

from coevolve.build import parts as build
from coevolve.commands.subjects import (
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
from coevolve.launcher import preflight
from coevolve.llm.keys import check_key
from coevolve.runs import directory as run_directory
from coevolve.runs.display import score_tables
from coevolve.runs.progress import Progress
from protocols.config import EvaluatorConfig, RunConfig
from protocols.errors import ConfigError
from protocols.learning import Evaluation
from protocols.synthesizers import EndpointModel

if TYPE_CHECKING:
    from coevolve.environments.hdl.evaluation.attempts import Budget
    from coevolve.environments.hdl.evaluation.table import Report

ENDPOINT_CONCURRENT = 8
"""Default number of concurrent attempts, without a run file."""

ENDPOINT_TEMPERATURE = 0.7
"""The value of LLM4Cov."""

GENERAL = ("run", "runs", "version", "config", "as_json")
"""Options for policies of every environment."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The evaluation that the command line requests."""

    subject: Subject
    config: RunConfig
    designs: tuple[Design, ...]
    budget: "Budget"
    temperature: float
    with_baselines: bool
    with_bugs: bool


@dataclass(frozen=True, kw_only=True)
class Options:
    """The values of the command line; `coevolve.cli.evaluate` describes each option."""

    run: str | None
    runs: Path
    version: str
    config: str | None
    endpoint: str
    model: str
    key_variable: str
    answer_tokens: int
    usd_per_million: tuple[float, float]
    rules: bool
    form: str | None
    temperature: float | None
    designs: Path | None
    split: str
    calls: int | None
    attempts: int
    seed: int
    baselines: bool
    bugs: bool
    as_json: bool
    given: frozenset[str]
    """Names of the options that the user gave."""


def evaluate(options: Options) -> None:
    """Evaluate and print. Raises CoevolveError."""
    config = _config(options)
    if config.uses == "hdl":
        require_slang()
        from coevolve.environments.hdl.evaluation.table import tables

        report = asyncio.run(_evaluated(_asked(options, config)))
        printed = tables(report)
    else:
        _check_general(options, config)
        report, printed = asyncio.run(_scored(_policy(options), config))
    if options.as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(printed)


def _check_general(options: Options, config: RunConfig) -> None:
    """Refuse options that apply only to designs. Raises ConfigError."""
    for name in sorted(options.given - set(GENERAL)):
        raise ConfigError(
            f"--{name.replace('_', '-')}: is for hardware designs (environment hdl), found "
            f"environment {config.uses}; leave it out"
        )


def _asked(options: Options, config: RunConfig) -> Asked:
    from coevolve.environments.hdl.evaluation.attempts import Budget

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


def _config(options: Options) -> RunConfig:
    """Return the settings of the evaluation, the same for every writer."""
    if options.run:
        config = run_directory.find(options.run, options.runs).config()
    elif options.config:
        config = load_config(options.config)
        if not options.endpoint:
            preflight.check(config)
    else:
        few = EvaluatorConfig(concurrent=ENDPOINT_CONCURRENT)
        config = RunConfig(name="endpoint", environment=section("hdl"), evaluator=few)
    if config.uses != "hdl":
        return config
    changes = {"designs": str(options.designs)} if options.designs else {}
    changes |= {"form": options.form} if options.form else {}
    return with_hdl(config, msgspec.structs.replace(hdl_settings(config), **changes))


def _temperature(options: Options, config: RunConfig) -> float:
    if options.temperature is not None:
        return options.temperature
    if options.endpoint:
        return ENDPOINT_TEMPERATURE
    return hdl_settings(config).evaluation_temperature or config.rollout.temperature


def _subject(options: Options, temperature: float) -> Subject:
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


def _policy(options: Options) -> OfRun | OfRunFile:
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
    """Score a policy as its run's evaluator does; return the scores, and the text to print."""
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
