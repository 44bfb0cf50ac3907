"""Feeds mutated input to each reader of foreign input, and counts what becomes of it.

Each reader runs in a process of its own, which only reads. *Refused* inputs got the reader's own
error, with a sentence of bounded length that has no control characters and none of the planted
credentials. *Raw* ones got any other exception. The time is the CPU time of one input, and the
memory is the growth of the process over all inputs. The exit code is 1 if any input was raw or
beyond the reader's bounds.
"""

import contextlib
import multiprocessing
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

import msgspec
from rich.table import Table

from coevolve.parts.status import peak_bytes
from tests.bench import output
from tests.foreign_models import MODEL_READERS
from tests.foreign_readers import READERS, Reader
from tests.mutating import Mutator

MOST_CHARS = 8_000
"""Maximum characters of a refusal."""

SECRETS = ("pw@", "secret@", "\x1b", "\u202e", "\x00")
"""Nothing of this may stand in a refusal."""

FORGET_PEAK = "5"
"""What Linux takes as the wish to measure the peak of memory anew."""

STUCK_S = 20.0
"""CPU seconds after which an input counts as one that never ends."""


KINDS = READERS | MODEL_READERS


class Outcome(msgspec.Struct, kw_only=True):
    """What became of the inputs of one kind."""

    kind: str
    read: int = 0
    refused: int = 0
    raw: int = 0
    slowest_ms: float = 0.0
    peak_mb: float = 0.0
    over: bool = False
    """Whether an input was beyond a bound."""

    faults: dict[str, int] = {}
    """Raw exceptions and bad refusals, by what was raised where."""


class StuckError(BaseException):
    """An input took `STUCK_S`."""


def main(arguments: list[str]) -> int:
    """Measure, print a table or JSON, and return the exit code."""
    parser = output.parser_of("mutations", __doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="kinds that contain this word")
    options = parser.parse_args(arguments)
    kinds = [kind for kind in KINDS if not options.only or options.only in kind]
    outcomes = [apart(kind, options.inputs, options.seed) for kind in kinds]
    output.show(outcomes, _table, as_json=options.json)
    for outcome in outcomes:
        for fault, count in outcome.faults.items():
            sys.stderr.write(f"{outcome.kind}: {count} x {fault}\n")
    return int(any(each.raw or each.over for each in outcomes))


def apart(kind: str, inputs: int, seed: int) -> Outcome:
    """Return the outcome of one kind, whose inputs this process makes and another one reads."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_measure, args=(kind, theirs))
    process.start()
    theirs.close()
    for one in made(kind, inputs, seed):
        ours.send(one)
    ours.send(None)
    outcome: Outcome = ours.recv()
    process.join()
    return outcome


def _measure(kind: str, connection: Connection) -> None:
    connection.send(measured(kind, iter(connection.recv, None)))


def made(kind: str, inputs: int, seed: int, *, most_bytes: int = 1 << 30) -> Iterator[bytes]:
    """Yield ``inputs`` inputs of a kind: the known ones first, then mutations of them.

    Known bad ones of more than ``most_bytes`` are left out.
    """
    reader = KINDS[kind]()
    bad = tuple(each for each in reader.bad if len(each) <= most_bytes)
    known = (*reader.real, *bad)[:inputs]
    yield from known
    mutator = Mutator(reader.real, bad, seed, structure=reader.structure)
    for _ in range(inputs - len(known)):
        yield mutator.next()


def measured(kind: str, inputs: Iterable[bytes]) -> Outcome:
    """Return what becomes of inputs of a kind."""
    reader = KINDS[kind]()
    outcome, faults = Outcome(kind=kind), Counter[str]()
    reader.read(reader.real[0])
    Path("/proc/self/clear_refs").write_text(FORGET_PEAK)
    before = _peak_mb()
    for one in inputs:
        began = time.process_time()
        is_read, fault = fault_of(reader, one)
        outcome.slowest_ms = max(outcome.slowest_ms, 1000 * (time.process_time() - began))
        outcome.read += is_read
        outcome.refused += not is_read and not fault
        faults.update([fault] if fault else [])
    outcome.peak_mb = _peak_mb() - before
    outcome.raw = faults.total()
    outcome.faults = dict(faults)
    outcome.over = outcome.slowest_ms > reader.most_ms or outcome.peak_mb > reader.most_mb
    return outcome


def fault_of(reader: Reader, content: bytes) -> tuple[bool, str]:
    """Feed one input; return whether it was read, and what is wrong with the outcome, and where."""
    try:
        with _limited():
            reader.read(content)
    except reader.refusals as error:
        return False, _unclear(str(error))
    except (Exception, StuckError) as error:  # noqa: BLE001 -- these are counted
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{last.filename[-40:]}:{last.lineno}"
        return False, f"{type(error).__name__}: {str(error)[:80]!r} in {where}"
    return True, ""


def _unclear(sentence: str) -> str:
    if not sentence or len(sentence) > MOST_CHARS:
        return f"a refusal of {len(sentence)} characters"
    found = [secret for secret in SECRETS if secret in sentence]
    return f"a refusal with {found[0]!r}: {sentence[:200]!r}" if found else ""


@contextlib.contextmanager
def _limited() -> Generator[None]:
    """Raise StuckError in the block after `STUCK_S` of CPU time."""

    def end(number: int, frame: FrameType | None) -> None:
        raise StuckError

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, STUCK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _peak_mb() -> float:
    """Return this process's largest memory since its peak was forgotten."""
    return peak_bytes() / (1 << 20)


def _table(outcomes: list[Outcome]) -> Table:
    headings = ("kind", "read", "refused", "raw", "slowest ms", "growth MB", "")
    rows = [
        (
            *(each.kind, str(each.read), str(each.refused), str(each.raw)),
            *(f"{each.slowest_ms:.0f}", f"{each.peak_mb:.0f}", "over" if each.over else ""),
        )
        for each in outcomes
    ]
    return output.table("mutated input", headings, rows)
