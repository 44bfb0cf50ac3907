"""Breaks promises one at a time, and counts how many of them the tests notice.

A mutant is one change of a source or a run file that breaks one promise (`tests.bench.promises`).
It is made in a copy of this tree, where the tests that should notice it run; the checkout stays as
it is. The same tests first run in the copy as it is, because a test that fails anyhow notices
nothing.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.promises import MUTANTS, OTHERS, Mutant

ROOT = Path(__file__).parents[2]
PASSED, FAILED = 0, 1
"""Pytest's exit codes; any other says that the tests did not run."""

LIMIT_S = 300
"""Time for the tests of one mutant; a mutant that hangs them longer is not noticed."""

LIMIT_BEFORE_S = 1800
"""Time for all tests before the first mutant."""

UNNEEDED = "not vllm and not cluster and not appworld and not exhaustive"


def copied(folder: Path) -> None:
    """Copy the files of this checkout, without those that git ignores, into ``folder``."""
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def outcome_of(folder: Path, tests: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """Return pytest's exit code in ``folder``, None after the limit, and its last lines."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    variables = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, "-m", UNNEEDED, *tests],
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode, "\n".join(failed[:1] or done.stdout.splitlines()[-3:])


def broken(mutant: Mutant, text: str) -> str:
    """Return the text of the mutant's file with the change. Raises ValueError if it is not one."""
    if (count := text.count(mutant.old)) != 1:
        raise ValueError(f"{mutant.file}: needs {mutant.old!r} once, found it {count} times")
    return text.replace(mutant.old, mutant.new)


def judged(folder: Path, mutant: Mutant) -> str:
    """Return ``noticed``, ``survived`` or ``did not run``, and which test failed."""
    file = folder / mutant.file
    text = file.read_text()
    file.write_text(broken(mutant, text))
    try:
        code, last = outcome_of(folder, mutant.tests, LIMIT_S)
    finally:
        file.write_text(text)
    words = {FAILED: "noticed", PASSED: "survived", None: "survived (no end)"}
    return f"{words.get(code, 'did not run')}: {last}"


def main(arguments: list[str]) -> int:
    """Print a line for each mutant, and how many are noticed; 1 if not all of them are."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench mutants", description=__doc__)
    parser.add_argument("--others", action="store_true", help="the second twenty promises")
    parser.add_argument("--only", default="", help="words of the promises to break")
    options = parser.parse_args(arguments)
    chosen = [
        each for each in (OTHERS if options.others else MUTANTS) if options.only in each.promise
    ]
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        copied(folder)
        every = sorted({test for each in chosen for test in each.tests})
        code, last = outcome_of(folder, every, LIMIT_BEFORE_S)
        if code != PASSED:
            sys.stderr.write(f"mutants: the tests need to pass without a mutant: {last}\n")
            return 1
        found: list[str] = []
        for each in chosen:
            began = time.monotonic()
            found.append(judged(folder, each))
            sys.stdout.write(f"{each.promise}: {found[-1]} ({time.monotonic() - began:.0f} s)\n")
            sys.stdout.flush()
    noticed = sum(each.startswith("noticed") for each in found)
    sys.stdout.write(f"{noticed} of {len(found)} broken promises are noticed\n")
    return int(noticed < len(found))
