"""Scores a policy, or a model behind an endpoint, on the benchmark CVDP-ECov.

As in the release of LLM4Cov, a sample is the best of up to ``calls`` testbenches for an item, or
fewer if one covers everything. There are three ways to write them, with one first testbench in
common:

- ``direct``: the first testbench alone.
- ``markov-agentic``: each step sees the best testbench so far and its result.
- ``agentic``: each step sees the whole conversation; for a model behind an endpoint only.

An unreadable answer is asked for again, `TRIES` times in all; after that the sample ends. An item
that is no design here counts as failed in every sample, and the report says why. Deviations:
coverage is that of Verilator (`hdl.simulate.summary`), prompts are coevolve's own
(`hdl.policy.prompts`), and an infrastructure failure ends the evaluation.
"""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from rich.console import Group
from rich.table import Table

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.evaluation.attempts import Budget, Writer, design_seed
from coevolve.environments.hdl.evaluation.comparing import Tell, together
from coevolve.environments.hdl.evaluation.evaluate import (
    Options,
    configured,
    opened_simulator,
    opened_subject,
    planned,
    settings_of,
    tell,
)
from coevolve.environments.hdl.evaluation.table import Cost, Settings, cost_of
from coevolve.environments.hdl.evaluation.writers import ChatWriter
from coevolve.environments.hdl.llm4cov.counting import (
    Counts,
    Result,
    check_targets,
    counted,
    result,
)
from coevolve.environments.hdl.llm4cov.items import Item, designs_of, items
from coevolve.environments.hdl.policy.frontier import beginning, continued
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Point
from coevolve.environments.sdk import EvaluationRequest, sampling_seed
from protocols.config import RunConfig
from protocols.errors import ConfigError

TRIES = 4
"""Maximum answers of a step until one can be read."""

DIRECT, MARKOV, AGENTIC = "direct", "markov-agentic", "agentic"


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one way to write testbenches."""

    summary: Counts
    samples: dict[str, tuple[Result, ...]]
    """Results of each item."""


class BenchmarkReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole evaluation."""

    settings: Settings
    refused: dict[str, str]
    """Why items are no designs here; each counts as failed."""

    ways: dict[str, Way]
    cost: Cost | None
    """None without an endpoint."""


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """An item as a design."""

    item: Item
    design: Design
    points: Sequence[Point]

    def result(self, state: Graded) -> Result:
        return result(state, self.item, self.design.unit, self.points)


@dataclass(frozen=True, kw_only=True)
class Contest:
    """A writer that takes part in the benchmark, and the settings."""

    writer: Writer
    simulator: TestbenchSimulator
    config: RunConfig
    budget: Budget
    tell: Tell
    """Reports progress."""

    async def run(
        self, given: Sequence[Item], designs: Mapping[str, Design], refused: dict[str, str]
    ) -> dict[str, Way]:
        """Return the scores of each way; add to ``refused`` why items cannot be measured.

        Raises ConfigError if none can be.
        """
        found = await together(
            self._entry(item, designs[item.id], refused) for item in given if item.id in designs
        )
        entries = list(filter(None, found))
        if not entries:
            raise ConfigError("no item can be measured here:\n" + "\n".join(refused.values()))
        gate, done = asyncio.Semaphore(self.config.evaluator.concurrent), 0

        async def on(entry: _Entry) -> list[dict[str, Result]]:
            nonlocal done
            results = await self.samples(entry, gate)
            done += 1
            self.tell(f"{done} of {len(entries)} items: {entry.item.id}")
            return results

        samples = await together(map(on, entries))
        every = dict(zip((each.item.id for each in entries), samples, strict=True))
        failed = [{way: Result() for way in samples[0][0]}] * self.budget.attempts
        every |= dict.fromkeys(refused, failed)
        return {way: _way(way, given, every) for way in samples[0][0]}

    async def _entry(self, item: Item, design: Design, refused: dict[str, str]) -> _Entry | None:
        """Return the item with its points; None if it has none, and ``refused`` says why."""
        try:
            points = await self.simulator.points(design.unit)
            check_targets(item, points)
        except ConfigError as error:
            refused[item.id] = str(error)
            return None
        return _Entry(item=item, design=design, points=points)

    async def samples(self, entry: _Entry, gate: asyncio.Semaphore) -> list[dict[str, Result]]:
        """Return the results of each sample of an item, by way."""
        task = beginning(entry.design, self.config)
        task = msgspec.structs.replace(task, instance=entry.item.dut_instance_name)

        async def one(number: int) -> dict[str, Result]:
            async with gate:
                return await self._sample(entry, task, number)

        return await together(map(one, range(self.budget.attempts)))

    async def _sample(self, entry: _Entry, task: CoverageTask, number: int) -> dict[str, Result]:
        seed = sampling_seed(design_seed(task.design, self.budget), number)
        name = f"{task.design}/{number}"
        steps = _Steps(writer=self.writer, entry=entry, session=name, seed=seed)
        first = await steps.step(task)
        found = {DIRECT: entry.result(first) if first else Result()}
        ways = (MARKOV, AGENTIC) if isinstance(self.writer, ChatWriter) else (MARKOV,)
        for way in ways:
            found[way] = await self._improved(steps, task, first, way)
        return found

    async def _improved(
        self, steps: "_Steps", task: CoverageTask, first: Graded | None, way: str
    ) -> Result:
        """Return the result of the best testbench of a chain that begins with ``first``."""
        made: list[Graded] = []
        kept, best, state = first, Result(), first
        while state is not None:
            made.append(state)
            found = steps.entry.result(state)
            if found.rank >= best.rank:
                kept, best = state, found
            if found.overall_coverage >= 1 or len(made) == self.budget.calls:
                break
            after = made if way == AGENTIC else [kept or state]
            state = await steps.step(continued(task, after[-1], ""), after[:-1])
        return best


@dataclass(kw_only=True)
class _Steps:
    """The steps of one sample."""

    writer: Writer
    entry: _Entry
    session: str
    seed: int
    taken: int = field(default=0)

    async def step(self, task: CoverageTask, earlier: Sequence[Graded] = ()) -> Graded | None:
        """Return the next testbench; None if no answer could be read."""
        for _ in range(TRIES):
            self.taken += 1
            place = f"{self.session}/{self.taken}", sampling_seed(self.seed, self.taken)
            if earlier:
                assert isinstance(self.writer, ChatWriter)
                state = await self.writer.write(task, *place, earlier)
            else:
                state = await self.writer.write(task, *place)
            if state is not None:
                return state
        return None


def evaluate_benchmark(
    request: EvaluationRequest, options: Options, file: Path
) -> tuple[BenchmarkReport, Group]:
    """Return the report and its text. Raises CoevolveError."""
    given = items(file)
    with tempfile.TemporaryDirectory(prefix="coevolve_benchmark_") as name:
        report = asyncio.run(_report(request, replace(options, designs=Path(name)), given))
    return report, _text(report)


async def _report(
    request: EvaluationRequest, options: Options, given: Sequence[Item]
) -> BenchmarkReport:
    assert options.designs is not None
    designs, refused = designs_of(given, options.designs)
    plan = planned(options, configured(request, options))
    async with (
        opened_simulator(plan.config) as simulator,
        opened_subject(request, options, plan, simulator) as subject,
    ):
        ways = await Contest(
            writer=subject.writer,
            simulator=simulator,
            config=plan.config,
            budget=plan.budget,
            tell=tell,
        ).run(given, designs, refused)
    return BenchmarkReport(
        settings=settings_of(subject.name, plan),
        refused=refused,
        ways=ways,
        cost=subject.usage and cost_of(subject.usage),
    )


def _way(way: str, given: Sequence[Item], every: dict[str, list[dict[str, Result]]]) -> Way:
    samples = {item.id: tuple(each[way] for each in every[item.id]) for item in given}
    return Way(summary=counted(samples), samples=samples)


def _text(report: BenchmarkReport) -> Group:
    """Return the printed report, in per cent."""
    settings, ways = report.settings, report.ways
    k = next(iter(ways.values())).summary.pass_k
    number = len(next(iter(ways.values())).samples)
    table = Table("metric", title=f"{number} items, %", title_justify="left")
    names = tuple(dict.fromkeys(("@1", f"@{k}")))
    for way in ways:
        for at in names:
            table.add_column(f"{way} {at}", justify="right")
    scores = {way: _scores(each.summary) for way, each in ways.items()}
    for metric in scores[DIRECT]:
        cells = (f"{100 * scores[way][metric][at]:.1f}" for way in ways for at in names)
        table.add_row(metric, *cells)
    head = (
        f"{settings.writer}: n = {settings.attempts} samples of each item, up to {settings.calls} "
        f"testbenches each, temperature {settings.temperature:g}, seed {settings.seed}"
    )
    failed = [f"{name} counts as failed: {reason}" for name, reason in report.refused.items()]
    return Group(head, table, *failed)


def _scores(counts: Counts) -> dict[str, dict[str, float]]:
    return counts.metrics | {
        "pass_targets_non_agentic": counts.pass_targets_non_agentic,
        "pass_targets_agentic": counts.pass_targets_agentic,
    }
