"""Surveys how much of other projects the hardware commands take, and prints each refusal.

LIST has an `Entry` a line, in JSON. Only entries that *plain Verilator* takes count: its
``--lint-only`` accepts the files and, where there is one, the testbench. A module is *adopted* if
`coevolve hdl adopt` makes a design of it that Verilator translates by itself. A testbench passes
*policy* or *trusted* if that gate admits it, and Verilator translates it with the design and finds
the instance that is measured. Nothing is compiled or simulated, so an entry takes seconds.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text

from coevolve.environments.hdl.adopt.adopting import Found, Options, found_design
from coevolve.environments.hdl.adopt.bench_text import bench_text
from coevolve.environments.hdl.adopt.bench_use import as_instantiated, with_bench_data
from coevolve.environments.hdl.adopt.reading import Verilator
from coevolve.environments.hdl.coverage.instrument import instrument
from coevolve.environments.hdl.designs.rtl import elaborate
from coevolve.environments.hdl.designs.wrapping import alone
from coevolve.environments.hdl.gate.elaboration import without_parameters
from coevolve.environments.hdl.gate.levels import admitted
from coevolve.environments.hdl.simulate.messages import GateLevel, Unit
from coevolve.environments.hdl.simulate.simulation import BLANK_TOP, Stopped, Tools, simulation
from coevolve.environments.hdl.simulate.summary import message
from coevolve.environments.hdl.simulate.verilator import ALONE, open_simulator
from protocols.errors import ConfigError, SimulatorError
from tests.bench import output

PLAIN = ("--lint-only", "--timing", "--assert", "-Wno-fatal", "-Wno-lint", "-Wno-style")
STEPS = ("plain Verilator", "adopted", "policy", "trusted")


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A module of a project, with or without a testbench."""

    name: str
    folder: Path
    """Where the other paths start; relative to the list's own folder."""

    project: tuple[Path, ...]
    """Files, or file lists, as `coevolve hdl adopt` takes them."""

    top: str
    bench: tuple[Path, ...] = ()
    bench_top: str = ""
    """The module that plain Verilator simulates; needed with a testbench."""

    include: tuple[Path, ...] = ()


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All that is printed."""

    taken: dict[str, tuple[int, int]]
    """Step -> how many entries it took, and of how many."""

    refused: tuple[tuple[str, str, str], ...]
    """Entry, step and reason."""


def main(arguments: list[str]) -> None:
    """Survey, and print the table and the refusals, or JSON."""
    parser = output.parser_of("survey", __doc__)
    parser.add_argument("list", type=Path, help="an entry a line")
    options = parser.parse_args(arguments)
    entries = [decoded(line) for line in options.list.read_text().splitlines() if line.strip()]
    tools = open_simulator().tools
    found: list[tuple[str, dict[str, str]]] = []
    for each in entries:
        with contextlib.chdir(options.list.resolve().parent / each.folder):
            found.append((each.name, dict(_steps(each, tools))))
    output.show(_figures(found), _drawn, as_json=options.json)


def decoded(line: str) -> Entry:
    """Return the entry of a line of the list. Raises ValidationError."""
    return msgspec.json.decode(line, type=Entry, dec_hook=lambda kind, value: kind(value))


def _figures(found: list[tuple[str, dict[str, str]]]) -> Figures:
    answers = {step: [made[step] for _, made in found if step in made] for step in STEPS}
    return Figures(
        taken={step: (said.count(""), len(said)) for step, said in answers.items()},
        refused=tuple(
            (name, step, why) for name, made in found for step, why in made.items() if why
        ),
    )


def _drawn(figures: Figures) -> Group:
    rows = [
        [step, str(taken), str(of), f"{taken / of:.1%}" if of else ""]
        for step, (taken, of) in figures.taken.items()
    ]
    drawn: Table = output.table("Survey", ["", "taken", "of", "share"], rows)
    return Group(drawn, *(Text(f"{name}: {step}: {why}") for name, step, why in figures.refused))


def _steps(entry: Entry, tools: Tools) -> Iterator[tuple[str, str]]:
    """Yield each step with the reason of its refusal; empty if it takes the entry."""
    verilator = Verilator(program=tools.runtime.verilator, root=tools.runtime.root)
    refused = _plain(entry, verilator)
    yield "plain Verilator", refused
    if refused:
        return
    options = Options(
        project=entry.project, top=entry.top, bench=entry.bench, include=entry.include,
        to=None, parameter=(), define=(), data=(), clock="", reset=None, flat=False,
    )  # fmt: skip
    found: Found | None = None
    try:
        found = found_design(options, verilator)
        blank = alone(elaborate(found.unit), BLANK_TOP)
        yield "adopted", _translated(found.unit, blank, BLANK_TOP, tools)
    except (ConfigError, SimulatorError) as error:
        yield "adopted", str(error)
    levels: tuple[GateLevel, ...] = ("policy", "trusted") if entry.bench else ()
    for level in levels:
        yield level, _gated(entry, found.unit, level, tools) if found else "not adopted"


def _plain(entry: Entry, verilator: Verilator) -> str:
    lists = [("-f", str(each)) if each.suffix == ".f" else (str(each),) for each in entry.project]
    command = [str(verilator.program), *PLAIN, *(word for words in lists for word in words)]
    command += [*map(str, entry.bench), *(f"+incdir+{each}" for each in entry.include)]
    environment: Mapping[str, str] = {**os.environ, "VERILATOR_ROOT": str(verilator.root)}
    done = subprocess.run(
        [*command, "--top-module", entry.bench_top if entry.bench else entry.top],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        check=False,
    )
    errors = [line for line in done.stderr.splitlines() if line.startswith("%Error")]
    return (errors or ["it failed without a message"])[0] if done.returncode else ""


def _gated(entry: Entry, unit: Unit, level: GateLevel, tools: Tools) -> str:
    bench, trusted = bench_text(entry.bench, entry.include), level == "trusted"
    try:
        if trusted:
            unit, _ = as_instantiated(unit, bench.text)
        unit, text = with_bench_data(unit, bench.text, entry.bench, (), trusted=trusted)
        top = admitted(text, unit, level=level)
        if not isinstance(top, str):
            return bench.placed(message(top))
        text = without_parameters(text, unit, top, trusted=trusted)
        return bench.placed(_translated(unit, text, top, tools, several=trusted))
    except (ConfigError, SimulatorError) as error:
        return str(error)


def _translated(unit: Unit, text: str, top: str, tools: Tools, *, several: bool = False) -> str:
    """Return why a testbench is not measured; empty if it is."""
    files = instrument(elaborate(unit)).files
    with simulation(tools, unit, ALONE) as under_way:
        try:
            under_way.translate(files, text, top)
            under_way.find_duts(several=several)
        except Stopped as stopped:
            return message(stopped.outcome)
    return ""
