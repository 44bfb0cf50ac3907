"""Measures what the gates of an environment refuse and admit falsely."""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from rich.table import Table

from coevolve.base.terminal import Terminal
from coevolve.base.user_code import exits_raised, told
from coevolve.commands.environment import configured
from coevolve.environments.gate_rates import GateRates, KindRate
from coevolve.environments.registry import environment_of
from protocols.config import RunConfig
from protocols.synthesizers import NoReader

EXAMPLES = 3
"""Examples of each gate's refusals, and of each kind's admissions, that are printed."""

SHOWN_CHARS = 110


class Choices(NamedTuple):
    """How much to measure; see `coevolve.environments.interface.Environment.gate_rates`."""

    sample: int
    planted: int
    calls_per_turn: int
    seed: int

    reader: RunConfig | None = None
    """The run whose reader reads; None for no reader."""


def measure_gates(use: str, settings: Sequence[str], choices: Choices, *, as_json: bool) -> None:
    """Print the rates. Raises ConfigError and RunError."""
    with told(f"environment.use: {use!r} cannot be measured"), exits_raised():
        config = configured(use, settings)
        rollout = msgspec.structs.replace(config.rollout, max_calls_per_turn=choices.calls_per_turn)
        environment = environment_of(
            _with_reader(msgspec.structs.replace(config, rollout=rollout), choices.reader)
        )
        rates = asyncio.run(
            environment.gate_rates(most=choices.sample, planted=choices.planted, seed=choices.seed)
        )
    if as_json:
        sys.stdout.write(msgspec.json.encode(rates).decode() + "\n")
    else:
        _show(use, rates)


def _with_reader(config: RunConfig, of: RunConfig | None) -> RunConfig:
    if of is None:
        unread = msgspec.structs.replace(config.validator, reader=NoReader())
        return msgspec.structs.replace(config, validator=unread)
    return msgspec.structs.replace(
        config, arm=of.arm, policy=of.policy, synthesizer=of.synthesizer, validator=of.validator
    )


def _show(use: str, rates: GateRates) -> None:
    console = Terminal(highlight=False)
    console.print(_table(f"{use}: its own tasks", "label", rates.given))
    seen = [each for each in rates.planted if each.visible]
    unseen = [each for each in rates.planted if not each.visible]
    console.print(_table("spoilt: execution or form can show the fault", "kind", seen))
    console.print(_table("spoilt: only the meaning of the words can show it", "kind", unseen))
    most = f"at most {EXAMPLES}"
    console.print(_examples(f"own tasks refused, {most} by each gate", rates.given))
    console.print(_admitted(f"spoilt tasks admitted, {most} of each kind", rates.planted))
    console.print("--json names all tasks, refused and admitted")
    if (threshold := rates.threshold()) is not None:
        console.print(
            f"validator.agreement: {threshold:.2g} separates the tasks that were read best; "
            "an unread one is admitted only if the policy solves it"
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
