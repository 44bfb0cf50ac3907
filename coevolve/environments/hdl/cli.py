"""The commands ``coevolve hdl ...``."""

import os
from pathlib import Path
from typing import Any

import click

from coevolve.environments.hdl.needs import require_slang

FILE = click.Path(path_type=Path)

SIMULATE_EXIT_CODES = """\b
Exit codes:
  0  the testbench ran, and its verdict is passed or none
  1  it did not run, and is to blame (refused, does not compile, covers nothing)
  2  the command or the design is at fault
  3  the machine is
  4  the verdict is failed: a check or an assertion failed, or the run did not end
  5  with --mutants: the testbench did not notice one of them
"""


@click.command()
@click.argument("project", nargs=-1, type=FILE, required=True, metavar="PROJECT.f|FILE.sv...")
@click.option("--top", required=True, help="Module under verification.")
@click.option("--to", type=FILE, help="Folder to write; default: named like the module.")
@click.option("-G", "--parameter", multiple=True, metavar="NAME=VALUE", help="A value; repeat.")
@click.option("-D", "--define", multiple=True, metavar="NAME[=TEXT]", help="A macro; repeat.")
@click.option("-I", "--include", multiple=True, type=FILE, help="Folder of includes; repeat.")
@click.option("--data", multiple=True, type=FILE, help="Folder of $readmemh; repeat.")
@click.option("--bench", multiple=True, type=FILE, help="Take its parameters; repeat.")
@click.option("--clock", default="", help="Input that a stimulus program toggles.")
@click.option("--reset", default="", metavar="PORT=low|high", help="Input that resets.")
@click.option("--flat", is_flag=True, help="Ports of bits for arrays and interfaces.")
def adopt(reset: str, **options: Any) -> int:
    """Make a design of a module of a project, as it is.

    PROJECT.f is a file list that Verilator reads. The folder that is written has copies of the
    module's files, its clock and reset, and its coverage points; every command takes it.
    """
    require_slang()
    from coevolve.environments.hdl.adopt.adopting import Options, adopt
    from coevolve.environments.hdl.evaluation.grade_testbench import reset_of

    adopt(Options(reset=reset_of(reset), **options))
    return 0


@click.command(epilog=SIMULATE_EXIT_CODES)
@click.argument("paths", nargs=-1, type=FILE, metavar="DESIGN TB.sv...")
@click.option("--rtl", multiple=True, type=FILE, help="A file of RTL; repeat in order of use.")
@click.option("--dut", default="", help="With --rtl: module under verification.")
@click.option("--plan", multiple=True, type=FILE, help="Covergroups bound to the design; repeat.")
@click.option("--clock", default="", help="With --rtl: input that a stimulus program toggles.")
@click.option("--reset", default="", metavar="PORT=low|high", help="With --rtl: input that resets.")
@click.option("--stimulus", type=FILE, help="Stimulus program in place of TB.sv.")
@click.option("--patch", type=FILE, help="Hunks in place of TB.sv.")
@click.option("--base", type=FILE, help="Testbench that the hunks apply to.")
@click.option("--top", default="", help="Module to simulate; default: it is found.")
@click.option("--instance", default="", help="Name of the DUT's instance; default: it is found.")
@click.option(
    "--gate",
    type=click.Choice(("policy", "trusted")),
    default="policy",
    show_default=True,
    help="trusted: your own testbench, which only the sandbox confines.",
)
@click.option("-I", "--include", multiple=True, type=FILE, help="Folder of includes; repeat.")
@click.option("--data", multiple=True, type=FILE, help="Folder of files that are read; repeat.")
@click.option("--slots", type=int, help="Maximum time slots of the simulation.")
@click.option("--cpu-s", type=float, help="Maximum CPU seconds of the simulation.")
@click.option("--seed", type=int, help="Seed of $urandom; default: the design's own, else 1.")
@click.option(
    "--fail-on", multiple=True, metavar="REGEX", help="Output that fails the run; repeat."
)
@click.option(
    "--mutants",
    type=click.Choice(("auto", "given")),
    help="Count noticed mutants: made ones, or those of DESIGN.",
)
@click.option("--lcov", type=FILE, help="Write lines and branches to this file, for genhtml.")
@click.option("--dat", type=FILE, help="Write coverage to this file, in Verilator's format.")
@click.option("--html", type=FILE, help="Write a page with source, gaps and mutants to this file.")
@click.option("--limit", type=int, default=4000, help="Characters of uncovered points to print.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a superset of LLM4Cov's.")
def simulate(**options: Any) -> int:
    """Grade one testbench by its coverage.

    DESIGN is a folder with a design.yaml; any other RTL is named by --rtl and --dut instead.
    """
    _check_simulate(**options)
    from coevolve.environments.hdl.evaluation.grade_testbench import Options, grade

    return grade(Options(**options))


def _check_simulate(
    *,
    paths: tuple[Path, ...],
    rtl: tuple[Path, ...],
    dut: str,
    clock: str,
    reset: str,
    stimulus: Path | None,
    patch: Path | None,
    base: Path | None,
    mutants: str | None,
    **others: Any,
) -> None:
    """Refuse options that do not go together. Raises UsageError."""
    del others
    expected = [] if rtl else ["DESIGN"]
    expected += [] if stimulus or patch else ["TB.sv"]
    several = "TB.sv" in expected and len(paths) > len(expected)
    for wrong, fault in (
        (
            len(paths) != len(expected) and not several,
            f"needs {' and '.join(expected) or 'no path'} here, found {len(paths)} paths",
        ),
        (bool(rtl) != bool(dut), "--rtl and --dut go together"),
        (bool(patch) != bool(base), "--patch and --base go together"),
        (patch and stimulus, "--patch and --stimulus are two submissions; give one"),
        (mutants == "given" and rtl, "--mutants given is for DESIGN; --rtl has --mutants auto"),
        (
            (clock or reset) and not rtl,
            "--clock and --reset are for --rtl; a design's folder names its own",
        ),
    ):
        if wrong:
            raise click.UsageError(fault)


@click.command()
@click.argument("designs", nargs=-1, type=FILE, metavar="[DESIGN]...")
@click.option("--freeze", is_flag=True, help="Write the set of points into design.yaml.")
@click.option("--table", is_flag=True, help="Print one table in Markdown.")
@click.option("--uncovered", is_flag=True, help="List the points that no testbench covered.")
@click.option("--jobs", type=click.IntRange(min=1), help="Designs at a time; default: one a core.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a line a design.")
def qualify(*, jobs: int | None, designs: tuple[Path, ...], **options: Any) -> int:
    """Say whether designs may be trained and measured on.

    DESIGN is a folder with a design.yaml, or a folder of such; default: designs. Each is measured
    and checked against every rule of `hdl.designs.admission`. --freeze writes the set of points
    only where the design breaks no other rule. Exit code 1: some design is refused, or unreadable.
    """
    require_slang()
    from coevolve.environments.hdl.designs.qualify import Options, qualify

    found = Options(
        designs=designs or (Path("designs"),),
        jobs=jobs or len(os.sched_getaffinity(0)),
        **options,
    )
    return 0 if qualify(found) else 1


@click.command()
@click.argument("paths", nargs=-1, type=FILE, metavar="DESIGN COVERAGE.dat...")
@click.option("--rtl", multiple=True, type=FILE, help="A file of RTL; repeat in order of use.")
@click.option("--dut", default="", help="With --rtl: module under verification.")
@click.option("--plan", multiple=True, type=FILE, help="Covergroups bound to the design; repeat.")
@click.option("--lcov", type=FILE, help="Write lines and branches to this file, for genhtml.")
@click.option("--dat", type=FILE, help="Write coverage to this file, in Verilator's format.")
@click.option("--limit", type=int, default=4000, help="Characters of uncovered points to print.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def merge(*, paths: tuple[Path, ...], rtl: tuple[Path, ...], dut: str, **options: Any) -> None:
    """Merge the coverage of several benches or runs: what any of them covers is covered.

    COVERAGE.dat is a file of `hdl simulate --dat`, or of any simulation by Verilator with one
    instance of the design. DESIGN is a folder with a design.yaml, or named by --rtl and --dut.
    """
    if len(paths) < (1 if rtl else 2) or bool(rtl) != bool(dut):
        raise click.UsageError("needs DESIGN, or --rtl and --dut, and at least one COVERAGE.dat")
    require_slang()
    from coevolve.environments.hdl.evaluation.coverage_files import merge as merge_files

    merge_files(paths=paths, rtl=rtl, dut=dut, **options)


@click.command(name="serve-queue")
@click.argument("folder", type=FILE)
@click.option(
    "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Jobs at a time."
)
def serve_queue(folder: Path, *, workers: int) -> None:
    """Serve LLM4Cov's file-drop queue until interrupted.

    Point clients that were written for a licensed simulator at FOLDER, which is made if missing;
    they need no change. Several of these commands may serve one folder. After an interrupt, running
    evaluations finish; a second interrupt stops them.
    """
    require_slang()
    from coevolve.environments.hdl.llm4cov.serve_queue import serve_folder

    serve_folder(folder, workers)
