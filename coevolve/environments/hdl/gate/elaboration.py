"""What pyslang says of a testbench's meaning, asked in a process of its own.

pyslang elaborates foreign text without a bound that holds: a small text can keep it busy for many
seconds, and while it works no other thread of its process does. So `complaints` and `excess` start
a child for each text, with limits on CPU time and memory. A child that meets them has no complaint;
what it was to look for excess in is too much itself.

`python -m coevolve.environments.hdl.gate.elaboration` is that child: it reads a `Question` in
MessagePack from its standard input and writes what it found, a JSON array.
"""

import contextlib
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from pyslang import DiagnosticEngine, Diagnostics, SourceManager
from pyslang.ast import CompilationFlags

from coevolve.environments.hdl.designs.rtl import compilation_of, located, options_for, parse
from coevolve.environments.hdl.gate.extents import excesses
from protocols.hardware import Rejected, SourceFile, TimedOut, Unit, Violation

TESTBENCH = "tb.sv"

MOST_STEPS = 10_000
"""Of evaluating constants."""

MOST_GENERATED = 256
MOST_DEPTH = 16

CPU_S = 2
MEMORY_MB = 1024
WALL_S = 30.0
"""For a machine that gives the child a fraction of a processor."""

ROOT = Path(__file__).parents[4]
"""Where the child finds this module."""


SPENT = 3
"""Exit status of a child that ran out of memory."""

TOO_MUCH = (
    f"reading the testbench took more than {CPU_S} s of CPU time or {MEMORY_MB} MB of memory; "
    "write it more simply"
)
MOST_VIOLATIONS = 8


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the child is asked."""

    about: Literal["complaints", "excess"]
    testbench: str
    unit: Unit
    top: str = ""
    """The module that is simulated, where excess is looked for."""


def complaints(testbench: str, unit: Unit) -> tuple[str, ...]:
    """Return the errors in the testbench, each ``tb.sv:line:column: error: text``.

    Nothing where pyslang took more than its limits, or does not start. Blocks.
    """
    question = Question(about="complaints", testbench=testbench, unit=unit)
    with contextlib.suppress(subprocess.SubprocessError, OSError, msgspec.DecodeError):
        return tuple(msgspec.json.decode(_asked(question), type=list[str]))
    return ()


def excess(testbench: str, unit: Unit, top: str) -> Rejected | TimedOut | None:
    """Return why nobody should compile the testbench, whose module ``top`` is simulated.

    None where there is no reason, or pyslang does not start or breaks down. Blocks.
    """
    question = Question(about="excess", testbench=testbench, unit=unit, top=top)
    try:
        found = msgspec.json.decode(_asked(question), type=list[Violation])
    except subprocess.CalledProcessError as error:
        spent = error.returncode in (SPENT, -signal.SIGXCPU, -signal.SIGABRT)
        return TimedOut(stage="compile", message=TOO_MUCH) if spent else None
    except (subprocess.SubprocessError, OSError, msgspec.DecodeError):
        return None
    return Rejected(violations=tuple(found[:MOST_VIOLATIONS])) if found else None


def _asked(question: Question) -> bytes:
    return subprocess.run(
        [sys.executable, "-m", "coevolve.environments.hdl.gate.elaboration"],
        input=msgspec.msgpack.encode(question),
        capture_output=True,
        cwd=ROOT,
        timeout=WALL_S,
        check=True,
    ).stdout


def placed(found: Diagnostics, sources: SourceManager) -> Iterator[str]:
    """Yield those errors that stand in the testbench."""
    engine = DiagnosticEngine(sources)
    for each in found:
        name, place = located(sources, each.location)
        if each.isError() and name == TESTBENCH:
            yield f"{place}: error: {engine.formatMessage(each)}"


def _complaints(question: Question) -> list[str]:
    sources = SourceManager()
    options = options_for()
    options.flags |= CompilationFlags.LintMode
    options.maxConstexprSteps = MOST_STEPS
    options.maxGenerateSteps = MOST_GENERATED
    options.maxInstanceDepth = MOST_DEPTH
    options.maxInstanceArray = MOST_GENERATED
    compilation = compilation_of(parse(_files(question), sources), options)
    return list(placed(compilation.getAllDiagnostics(), sources))


def _excess(question: Question) -> list[Violation]:
    sources = SourceManager()
    found: set[tuple[int, int, str]] = set()
    for where, message in excesses(parse(_files(question), sources), sources, question.top):
        name, line, column = where.rsplit(":", 2)
        if name == TESTBENCH:
            found.add((int(line), int(column), message))
    return [
        Violation(line=line, column=column, message=message)
        for line, column, message in sorted(found)
    ]


def _files(question: Question) -> tuple[SourceFile, ...]:
    return (*question.unit.files, SourceFile(name=TESTBENCH, text=question.testbench))


def _main() -> None:
    """Answer one question."""
    memory = MEMORY_MB << 20
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    question = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Question)
    try:
        found = _excess(question) if question.about == "excess" else _complaints(question)
    except MemoryError:
        sys.exit(SPENT)
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    _main()
