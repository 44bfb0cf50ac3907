"""LLM4Cov's evaluator as a command.

`python -m coevolve.environments.hdl.llm4cov.get_cov_result --workdir DIR ...`

It takes the arguments that the authors' scripts (arXiv 2602.16953) give to their evaluator, and
writes the JSON that they read to ``--outfile`` in the working directory. ``--metrics`` has no
effect, since every metric is in the answer. ``--timeout`` can lower the limits of this simulator
but not raise them. Files are named relative to the working directory and are in it, not in a
subfolder.

Their client runs ``uv run -m llm4cov_eda.get_cov_result`` in a folder that its user chooses. To use
this evaluator, put a module of that name there that imports ``main`` from here and calls it.

The exit status is 0 if the answer was written, whatever the testbench did; 1 if the simulator or
the design failed (an answer with status ``exception`` is written too); 2 for invalid arguments.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from coevolve.environments.hdl.llm4cov.job import DETAIL_CHARACTERS, job, read_text
from coevolve.environments.hdl.needs import require_slang
from protocols.errors import CoevolveError, DependencyError


def main(words: Sequence[str] | None = None) -> None:
    """Evaluate one testbench."""
    arguments = _parser().parse_args(words)
    if not arguments.workdir.is_dir():
        sys.stderr.write(f"coevolve: --workdir must be a folder, found {arguments.workdir}\n")
        sys.exit(2)
    try:
        require_slang()
    except DependencyError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        sys.exit(1)
    from coevolve.environments.hdl.simulate.summary import failure

    try:
        found = asyncio.run(_evaluate(arguments))
    except CoevolveError as error:
        found = failure(str(error))
    (arguments.workdir / arguments.outfile).write_bytes(msgspec.json.encode(found))
    if found["status"] == "exception":
        sys.stderr.write(f"coevolve: {found['err_msg']}\n")
        sys.exit(1)


async def _evaluate(arguments: argparse.Namespace) -> dict[str, object]:
    from coevolve.environments.hdl.llm4cov.answer import answer
    from coevolve.environments.hdl.simulate.verilator import open_simulator

    folder: Path = arguments.workdir
    rtl = {name: read_text(folder, name) for name in arguments.sv_files if name != arguments.tb}
    wanted = job(
        dut=arguments.dut,
        rtl=rtl,
        testbench_file=arguments.tb,
        testbench=read_text(folder, arguments.tb, testbench=True),
        cov_type=arguments.cov_type,
        timeout_s=arguments.timeout,
        detail_limit=0 if arguments.skip_detail else arguments.detail_limit,
    )
    return await answer(open_simulator(), wanted)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.environments.hdl.llm4cov.get_cov_result",
        description=__doc__,
        allow_abbrev=False,
    )
    parser.add_argument("--workdir", type=Path, required=True, help="folder of all files")
    parser.add_argument("--sv_files", nargs="+", required=True, help="RTL, in order")
    parser.add_argument("--tb", required=True, help="the testbench")
    parser.add_argument("--dut", required=True, help="module under verification")
    parser.add_argument("--cov_type", default="all", help="only 'all'")
    parser.add_argument("--metrics", nargs="*", default=[], help="no effect")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for each stage")
    parser.add_argument("--outfile", default="result.json", help="in the working directory")
    parser.add_argument("--skip_detail", action="store_true", help="without uncovered points")
    parser.add_argument(
        "--detail_limit", type=int, default=DETAIL_CHARACTERS, help="characters of the detail"
    )
    return parser


if __name__ == "__main__":
    main()
