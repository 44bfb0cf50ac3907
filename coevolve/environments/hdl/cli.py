"""The commands ``coevolve hdl ...``."""

from pathlib import Path
from typing import Any

import click

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("paths", nargs=-1, type=FILE, metavar="DESIGN TB.sv")
@click.option("--rtl", multiple=True, type=FILE, help="A file of RTL; repeat in order of use.")
@click.option("--dut", default="", help="With --rtl: module under verification.")
@click.option("--clock", default="", help="With --rtl: input that a stimulus program toggles.")
@click.option("--reset", default="", metavar="PORT=low|high", help="With --rtl: input that resets.")
@click.option("--stimulus", type=FILE, help="Stimulus program in place of TB.sv.")
@click.option("--patch", type=FILE, help="Hunks in place of TB.sv.")
@click.option("--base", type=FILE, help="Testbench that the hunks apply to.")
@click.option("--top", default="", help="Module to simulate; default: it is found.")
@click.option("--instance", default="", help="Name of the DUT's instance; default: it is found.")
@click.option("--seed", type=int, help="Seed of $urandom; default: the design's own, else 1.")
@click.option("--limit", type=int, default=4000, help="Characters of uncovered points to print.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a superset of LLM4Cov's.")
def simulate(**options: Any) -> int:
    r"""Grade one testbench by its coverage.

    DESIGN is a folder with a design.yaml; any other RTL is named by --rtl and --dut instead.

    \b
    Exit codes:
      0  the testbench ran
      1  it did not, and is to blame (refused, does not compile, fails, covers nothing, too slow)
      2  the command or the design is at fault
      3  the machine is
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
    **others: Any,
) -> None:
    """Refuse options that do not go together. Raises UsageError."""
    del others
    expected = [] if rtl else ["DESIGN"]
    expected += [] if stimulus or patch else ["TB.sv"]
    for wrong, fault in (
        (
            len(paths) != len(expected),
            f"needs {' and '.join(expected) or 'no path'} here, found {len(paths)} paths",
        ),
        (bool(rtl) != bool(dut), "--rtl and --dut go together"),
        (bool(patch) != bool(base), "--patch and --base go together"),
        (patch and stimulus, "--patch and --stimulus are two submissions; give one"),
        (
            (clock or reset) and not rtl,
            "--clock and --reset are for --rtl; a design's folder names its own",
        ),
    ):
        if wrong:
            raise click.UsageError(fault)
