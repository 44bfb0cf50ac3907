"""Runs the benches of the results page in a small form, and notes in the page that they ran.

Below the heading of each section with a bench stands a line: the date and the commit at which the
section's benches were last seen to run, and those that were not. A small form has the arguments of
the page and `SMALL`'s, which win; it shows that the command still works, not that it gives the
figures of the page. What the page does with `coevolve` and `pytest` is run by the tests.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.documented import FOLDER, ROOT, commands

PAGE = FOLDER / "figures.md"
WIDTH = 120
LIMIT_S = 900.0

RUN = (
    "learner.steps=2 learner.groups_per_step=2 rollout.group_size=4 rollout.in_flight_groups=6 "
    "environment.held_out=12 evaluator.fresh=0 evaluator.every=2"
)

SMALL: Mapping[str, str] = {
    "appworld": "--episodes 2",
    "appworld-gates": "--sample 1 --planted 0 --templates new-note",
    "appworld-templates": "--edits 2",
    "calls": "--rounds 1",
    "chaos": "--kills 2 --minutes 2",
    "delivery": "--versions 16 --engines transformers --forms full --dtypes float32",
    "endpoint": "--steps 4",
    "engine": "--rounds 1 --conversations 4 --turns 2 --deliveries 1",
    "exposure": "--steps 2",
    "faults": "--faults 16",
    "gates": "--sample 1 --spoilt 0",
    "gateway": "--messages 4 --rounds 1 --attempts 20",
    "gradient": "--rollouts 64 --every 32 --seeds 0 --held-out 12 --jobs 1",
    "guard": "--runs 5",
    "hdl": "--rounds 1 --plain 0 --programs 4 --designs alu16",
    "hdl-ablation": "--steps 3 --seeds 0 --runs RUNS --set learner.groups_per_step=2",
    "hdl-baselines": "designs/sync_fifo --calls 2",
    "journal": "--rounds 1 --records 2000",
    "learner": "--pairs 1",
    "learning": f"--seeds 0 --runs RUNS --set {RUN}",
    "lexical": "",
    "memorization": "--tasks 4 --parts 1 --steps 2 --instances 4",
    "mutations": "--inputs 20",
    "page": "--steps 50",
    "planted": "--worlds 1",
    "powercuts": "--cuts 4 --lives 1 --seconds 0.1",
    "recovery": "--every 1 --steps 2",
    "restarts": "--rounds 1 --parts signals --fork true",
    "rollouts": "--rollouts 64 --rounds 1",
    "scores": "--pairs 1 --steps 2",
    "simulator": "--rounds 1 --concurrent 8",
    "soak": "--records 20000",
    "store": "--rollouts 64 --rounds 1 --actors 2",
    "trl": "--rollouts 128 --every 64 --seeds 0 --rates 1e-3 --jobs 1",
}
"""Bench -> arguments that make it small; RUNS stands for a new folder.

Without an entry are those that need another checkout (`scaling`, `journal-cost`, `survey`) or a
model that has to be downloaded (`likelihood`).
"""

STAMP = re.compile(r"^\*Benches last seen to run\*.*?(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
SEEN = re.compile(r"\((\d{4}-\d\d-\d\d), ([0-9a-f]{8})\)")
NEVER = "none since the commits of their figures"


class Section(NamedTuple):
    """A section of the page with the benches that it names."""

    title: str
    text: str
    """With its heading."""

    benches: tuple[str, ...]
    """Command lines, each once."""


def sections(text: str) -> Iterator[Section]:
    """Yield the sections of the page that name a bench."""
    starts = [found.start() for found in re.finditer(r"^## ", text, re.MULTILINE)]
    stamps = [range(*(_line(text, x) for x in found.span())) for found in STAMP.finditer(text)]
    told = [
        (each.line, each.words)
        for each in commands(PAGE)
        if not any(each.line in lines for lines in stamps)
    ]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        first, last = _line(text, start), _line(text, end)
        benches = [
            shlex.join(words)
            for line, words in told
            if first <= line < last and words[:3] == ("python", "-m", "tests.bench")
        ]
        if benches:
            body = text[start:end]
            title = body.partition("\n")[0].removeprefix("## ")
            yield Section(title, body, tuple(dict.fromkeys(benches)))


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def unseen_of(section: Section) -> list[str]:
    """Return the benches that the section's line says were not seen to run, in words of a shell."""
    stamp = STAMP.search(section.text)
    said = " ".join(stamp[0].split()).partition("; not seen: ")[2] if stamp else ""
    return re.findall(r"`([^`]+)`", said)


def stamped(section: Section, unseen: Sequence[str], seen: str) -> str:
    """Return the section's text with the line that says what was seen."""
    words = f"*Benches last seen to run* in a small form, by `tests/bench/seen.py`: {seen}"
    words += f"; not seen: {', '.join(f'`{each}`' for each in unseen)}." if unseen else "."
    heading, _, rest = STAMP.sub("", section.text, count=1).partition("\n")
    return f"{heading}\n\n{_wrapped(words)}\n\n{rest.lstrip(chr(10))}"


def _wrapped(words: str) -> str:
    lines = [""]
    for word in words.split(" "):
        if len(lines[-1]) + len(word) >= WIDTH:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)


def small(command: str, runs: Path) -> list[str] | None:
    """Return the words of the small form of a bench; None if it has none."""
    _, _, module, bench, *rest = shlex.split(command)
    if bench not in SMALL:
        return None
    more = [str(runs) if each == "RUNS" else each for each in SMALL[bench].split()]
    return [sys.executable, "-m", module, bench, *rest, *more]


def works(command: str) -> bool:
    """Run the small form; say what it printed if it failed, and return whether it worked."""
    with tempfile.TemporaryDirectory() as folder:
        words = small(command, Path(folder))
        if words is None:
            return False
        sys.stdout.write(f"{shlex.join(words[1:])}\n")
        sys.stdout.flush()
        done = subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    if done.returncode:
        sys.stdout.write(f"failed with code {done.returncode}:\n{done.stdout}{done.stderr}\n")
    return not done.returncode


def main(arguments: list[str]) -> int:
    """Run benches of the page; with ``--write``, note in the page which of them ran."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench seen", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORDS", help="commands with these words")
    parser.add_argument("--write", action="store_true", help="note the outcome in the page")
    options = parser.parse_args(arguments)
    failed = 0
    for section in list(sections(PAGE.read_text())):
        chosen = [each for each in section.benches if options.only in each and small(each, ROOT)]
        worked = {each: works(each) for each in chosen}
        failed += len(chosen) - sum(worked.values())
        if options.write and chosen:
            note(section.title, worked)
    return 1 if failed else 0


def note(title: str, worked: Mapping[str, bool]) -> None:
    """Write the outcome of benches into the section of this title."""
    text = PAGE.read_text()
    section = next(each for each in sections(text) if each.title == title)
    stamp = STAMP.search(section.text)
    lacking = unseen_of(section) if stamp else section.benches
    unseen = [x for x in section.benches if not worked.get(x, x not in lacking)]
    seen = SEEN.search(stamp[0]) if stamp else None
    told = seen[0] if seen else NEVER
    if any(worked.values()):
        told = f"({datetime.now(UTC).date()}, {_commit()})"
    PAGE.write_text(text.replace(section.text, stamped(section, unseen, told)))


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
