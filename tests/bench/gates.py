"""What the gates of an environment with tools refuse and admit falsely.

``python -m tests.bench gates bfcl categories=[base]``: the environment's own tasks are candidates,
and then tasks that are spoilt on purpose (`tests.spoiling.kinds`). The first should be admitted,
the others refused. With `--reader-of`, it also prints the agreement that separates both best.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence

import msgspec
from rich.console import Group
from rich.table import Table

from coevolve.commands.environment import configured
from coevolve.config.load import load_config
from coevolve.environments.registry import environment_of
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.environments.tools.evolution import TRIALS_IN_BATCH
from coevolve.environments.tools.gates.gates import ToolGates
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.wire import ToolClient
from protocols.config import RunConfig
from protocols.synthesizers import NoReader
from tests.bench import output
from tests.spoiling.calibration import GateCalibration, Sample, by_label, unrecorded_reader
from tests.spoiling.rates import GateRates, KindRate

EXAMPLES = 3
"""Examples of each gate's refusals, and of each kind's admissions, that are printed."""

SHOWN_CHARS = 110


async def measured(config: RunConfig, sample: Sample) -> GateRates:
    """Return the rates on the environment's tasks. Raises SimulatorError."""
    environment = environment_of(config)
    if not isinstance(environment, ToolEnvironment) or _has_own_gates(environment):
        sys.exit(f"gates: needs an environment with the gates of tools, got {environment.name}")
    source = environment.source()
    canaries = source.canaries(config.learner.guard.tasks)
    tasks = (*source.pool(), *canaries, *source.held_out())
    labels = {task.task_id: " ".join(environment.kinds(task)) or "all" for task in tasks}
    services = [environment.simulator() for _ in range(config.simulator.workers)]
    pool = SimulatorPool(list(map(ToolClient, services)), TRIALS_IN_BATCH)
    gates = ToolGates(
        pool, calls_per_turn=config.rollout.max_calls_per_turn, reader=unrecorded_reader(config)
    )
    try:
        return await GateCalibration(gates, pool, sample).rates(by_label(labels, tasks))
    finally:
        for service in services:
            await service.close()


def _has_own_gates(environment: ToolEnvironment) -> bool:
    return type(environment).gates is not ToolEnvironment.gates


def config_of(use: str, settings: Sequence[str], calls: int, reader_of: str | None) -> RunConfig:
    """Return the configuration of an environment that is read as in a run file, or by nobody."""
    config = configured(use, settings)
    config = msgspec.structs.replace(
        config,
        rollout=msgspec.structs.replace(config.rollout, max_calls_per_turn=calls),
        validator=msgspec.structs.replace(config.validator, reader=NoReader()),
    )
    if reader_of is None:
        return config
    of = load_config(reader_of)
    return msgspec.structs.replace(
        config, arm=of.arm, policy=of.policy, synthesizer=of.synthesizer, validator=of.validator
    )


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = output.parser_of("gates", __doc__)
    parser.add_argument("environment", help="its name, or module:Class")
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--sample", type=int, default=0, help="own tasks of each label; 0: all")
    parser.add_argument("--spoilt", type=int, default=20, help="spoilt tasks of each kind")
    parser.add_argument("--calls-per-turn", type=int, default=20, help="calls of a reference")
    parser.add_argument("--reader-of", metavar="FILE", help="run file whose reader reads")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_intermixed_args(arguments)
    config = config_of(given.environment, given.settings, given.calls_per_turn, given.reader_of)
    rates = asyncio.run(measured(config, Sample(given.sample, given.spoilt, given.seed)))
    output.show(rates, drawn, as_json=given.json)


def drawn(rates: GateRates) -> Group:
    """Return the tables of all rates and some examples, and the best agreement."""
    seen = [each for each in rates.planted if each.visible]
    unseen = [each for each in rates.planted if not each.visible]
    most = f"at most {EXAMPLES}"
    threshold = rates.threshold()
    return Group(
        _table("own tasks", "label", rates.given),
        _table("spoilt: execution or form can show the fault", "kind", seen),
        _table("spoilt: only the meaning of the words can show it", "kind", unseen),
        _examples(f"own tasks refused, {most} by each gate", rates.given),
        _admitted(f"spoilt tasks admitted, {most} of each kind", rates.planted),
        "--json names all tasks, refused and admitted",
        "" if threshold is None else f"validator.agreement: {threshold:.2g} separates them best",
    )


def _table(title: str, label: str, rates: Sequence[KindRate]) -> Table:
    table = Table(label, "candidates", "admitted", "%", "refused by", title=title)
    for each in (*rates, _sum(rates)) if len(rates) > 1 else rates:
        share = f"{100 * len(each.admitted) / each.candidates:.0f}" if each.candidates else "-"
        gates = Counter(refusal.gate for refusal in each.refusals).most_common()
        table.add_row(
            each.kind,
            str(each.candidates),
            str(len(each.admitted)),
            share,
            ", ".join(f"{gate} {count}" for gate, count in gates),
        )
    return table


def _sum(rates: Sequence[KindRate]) -> KindRate:
    return KindRate(
        kind="sum",
        candidates=sum(each.candidates for each in rates),
        admitted=tuple(task for each in rates for task in each.admitted),
        refusals=tuple(refusal for each in rates for refusal in each.refusals),
    )


def _examples(title: str, rates: Sequence[KindRate]) -> Table:
    table = Table("gate", "task", "found", title=title)
    shown = Counter[str]()
    for refusal in _sum(rates).refusals:
        shown[refusal.gate] += 1
        if shown[refusal.gate] <= EXAMPLES:
            table.add_row(refusal.gate, refusal.task_id, refusal.found[:SHOWN_CHARS])
    return table


def _admitted(title: str, rates: Sequence[KindRate]) -> Table:
    table = Table("kind", "made from", title=title)
    for each in rates:
        if each.admitted:
            table.add_row(each.kind, ", ".join(each.admitted[:EXAMPLES]))
    return table
