"""Compares a policy, or a model behind an endpoint, with other writers of testbenches.

Every attempt has the same number of simulator calls. It is *agentic* (a chain of improvements) or
*direct* (the best of that many first testbenches); see `hdl.evaluation.attempts`. Generators
without a model get the same number of calls.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Group

from coevolve.environments.hdl import parts as hardware
from coevolve.environments.hdl.config import HdlConfig
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.evaluation.attempts import Budget, Writer
from coevolve.environments.hdl.evaluation.bugs import BugJudge
from coevolve.environments.hdl.evaluation.comparing import Comparison
from coevolve.environments.hdl.evaluation.table import (
    Report,
    Settings,
    cost_of,
    summed_up,
    tables,
)
from coevolve.environments.hdl.evaluation.writers import ChatWriter, PlayingWriter
from coevolve.environments.hdl.policy.frontier import beginning
from coevolve.environments.hdl.policy.teacher import EndpointTeacher
from coevolve.environments.hdl.settings import hdl_settings, with_hdl
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Evaluate, Evaluated, Point, Unit
from coevolve.environments.hdl.simulate.reward import MutantTrial
from coevolve.environments.hdl.simulate.toolchain import find_toolchain
from coevolve.environments.hdl.simulate.verilator import open_simulator
from coevolve.environments.sdk import EvaluationRequest, ModelUsage, check_key, section
from protocols.config import EvaluatorConfig, RunConfig
from protocols.errors import ConfigError, SimulatorError
from protocols.synthesizers import EndpointModel

ENDPOINT_CONCURRENT = 8
"""Default number of concurrent attempts, without a run file."""

ENDPOINT_TEMPERATURE = 0.7
"""The value of LLM4Cov."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The values of the options, which `hdl.evaluation.options` describes."""

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


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The evaluation that the command line requests."""

    config: RunConfig
    designs: tuple[Design, ...]
    budget: Budget
    endpoint: EndpointModel | None
    """None for the request's policy."""

    temperature: float


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Whatever is evaluated, ready to write testbenches."""

    name: str
    writer: Writer
    usage: ModelUsage | None = None
    """Usage of an endpoint; None for a policy."""


def evaluate(request: EvaluationRequest, options: Options) -> tuple[Report, Group]:
    """Return the report and its tables. Raises CoevolveError."""
    config = configured(request, options)
    report = asyncio.run(_report(request, options, planned(options, config)))
    return report, tables(report)


def configured(request: EvaluationRequest, options: Options) -> RunConfig:
    """Return the settings of the evaluation, the same for every writer."""
    config = request.config
    if config is None:
        few = EvaluatorConfig(concurrent=ENDPOINT_CONCURRENT)
        config = RunConfig(name="endpoint", environment=section("hdl"), evaluator=few)
    changes = {"designs": str(options.designs)} if options.designs else {}
    changes |= {"form": options.form} if options.form else {}
    return with_hdl(config, msgspec.structs.replace(hdl_settings(config), **changes))


def planned(options: Options, config: RunConfig) -> Plan:
    """Return the evaluation under the settings ``config``. Raises ConfigError."""
    hdl = hdl_settings(config)
    designs = tuple(
        each for each in hardware.designs(config) if options.split in ("all", each.file.split)
    )
    if not designs:
        raise ConfigError(
            f"--split {options.split}: the folder of designs holds none of it; give another, or all"
        )
    temperature = _temperature(options, config)
    return Plan(
        config=config,
        designs=designs,
        budget=Budget(
            calls=options.calls or hdl.evaluation_rounds,
            attempts=options.attempts,
            seed=options.seed,
            keeps_best=hdl.memory == "best",
            weights=hdl.reward,
        ),
        endpoint=_endpoint(options, temperature) if options.endpoint else None,
        temperature=temperature,
    )


def _trial(options: Options, hdl: HdlConfig) -> MutantTrial | None:
    """Return the trial of the best testbenches; without --no-bugs there is always one."""
    if not options.bugs:
        return None
    counts = "shown" if hdl.form == "stimulus" else hdl.reward.trial.counts
    return msgspec.structs.replace(hdl.reward.trial, counts=counts, above=0.0)


def _temperature(options: Options, config: RunConfig) -> float:
    if options.temperature is not None:
        return options.temperature
    if options.endpoint:
        return ENDPOINT_TEMPERATURE
    return hdl_settings(config).evaluation_temperature or config.rollout.temperature


def _endpoint(options: Options, temperature: float) -> EndpointModel:
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
    return endpoint


async def _report(request: EvaluationRequest, options: Options, plan: Plan) -> Report:
    verilator, hdl = open_simulator(), hdl_settings(plan.config)
    async with (
        opened_simulator(plan.config) as simulator,
        opened_subject(request, options, plan, simulator) as subject,
    ):
        designs = await Comparison(
            writer=subject.writer,
            simulator=simulator,
            judge=BugJudge(verilator, hdl.limits) if options.bugs else None,
            budget=plan.budget,
            limits=hdl.limits,
            trial=_trial(options, hdl),
            concurrent=plan.config.evaluator.concurrent,
            with_baselines=options.baselines,
            tell=tell,
        ).run([(design, beginning(design, plan.config)) for design in plan.designs])
    return Report(
        settings=settings_of(subject.name, plan),
        splits=summed_up(designs, plan.budget.seed),
        designs=designs,
        cost=subject.usage and cost_of(subject.usage),
    )


def settings_of(writer: str, plan: Plan) -> Settings:
    """Return the settings for the report."""
    hdl = hdl_settings(plan.config)
    return Settings(
        writer=writer,
        form=hdl.form,
        calls=plan.budget.calls,
        attempts=plan.budget.attempts,
        seed=plan.budget.seed,
        temperature=plan.temperature,
        memory=hdl.memory,
        toolchain=find_toolchain().identity,
    )


@asynccontextmanager
async def opened_simulator(config: RunConfig) -> AsyncGenerator[TestbenchSimulator]:
    """Yield a simulator with the same number of concurrent evaluations as a run."""
    simulator = hardware.simulator(config)
    try:
        most = config.simulator.workers * hdl_settings(config).concurrent
        yield BoundedSimulator(simulator, most=most, tries=config.rollout.tries)
    finally:
        await simulator.close()


@asynccontextmanager
async def opened_subject(
    request: EvaluationRequest, options: Options, plan: Plan, simulator: TestbenchSimulator
) -> AsyncGenerator[Subject]:
    """Yield the subject as a writer. Raises ConfigError, RunError and GeneratorError."""
    if plan.endpoint is not None:
        teacher = EndpointTeacher(plan.endpoint)
        writer = ChatWriter(
            model=teacher,
            simulator=simulator,
            designs={design.design_id: design for design in hardware.designs(plan.config)},
            hdl=hdl_settings(plan.config),
            rules=options.rules,
        )
        try:
            yield Subject(name=plan.endpoint.model, writer=writer, usage=writer.usage)
        finally:
            await teacher.close()
        return
    async with request.serve(plan.config) as policy:
        agent = hardware.policy_agent(
            policy.context, policy.engine, [simulator], temperature=plan.temperature
        )
        yield Subject(name=policy.name, writer=PlayingWriter(agent))


def tell(text: str) -> None:
    """Report progress."""
    sys.stderr.write(f"coevolve: {text}\n")


class BoundedSimulator:
    """A `TestbenchSimulator` in front of another one."""

    def __init__(self, simulator: TestbenchSimulator, *, most: int, tries: int) -> None:
        """Run at most ``most`` evaluations at a time, with up to ``tries`` tries each."""
        self._simulator = simulator
        self._tries = tries
        self._gate = asyncio.Semaphore(most)

    async def evaluate(self, request: Evaluate) -> Evaluated:
        """Grade one submission; may wait first. Raises SimulatorError after the last try."""
        async with self._gate:
            for _ in range(self._tries - 1):
                with contextlib.suppress(SimulatorError):
                    return await self._simulator.evaluate(request)
            return await self._simulator.evaluate(request)

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        return await self._simulator.points(unit)
