"""What pyslang says of a testbench's meaning, asked in a process of its own.

pyslang elaborates foreign text without a bound that holds: a small text can keep it busy for many
seconds, and while it works no other thread of its process does. So `complaints` starts a child for
each text, with limits on CPU time and memory. A child that meets them has nothing to say.

`python -m coevolve.hdl.elaboration` is that child: it reads a `Question` in MessagePack from its
standard input and writes the messages as a JSON array.
"""

import contextlib
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from pyslang import Bag, DiagnosticEngine, Diagnostics, SourceManager, TimeScale
from pyslang.ast import Compilation, CompilationFlags, CompilationOptions

from coevolve.hdl.rtl import LENIENT, TIMESCALE, located, parse
from protocols.hardware import SourceFile, Unit

TESTBENCH = "tb.sv"

MOST_STEPS = 10_000
"""Of evaluating constants."""

MOST_GENERATED = 256
MOST_DEPTH = 16

CPU_S = 2
MEMORY_MB = 1024
WALL_S = 30.0
"""For a machine that gives the child a fraction of a processor."""

ROOT = Path(__file__).parents[2]
"""Where the child finds this module."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the child is asked."""

    testbench: str
    unit: Unit


def complaints(testbench: str, unit: Unit) -> tuple[str, ...]:
    """Return the errors in the testbench, each ``tb.sv:line:column: error: text``.

    Nothing where pyslang took more than its limits, or does not start. Blocks.
    """
    question = msgspec.msgpack.encode(Question(testbench=testbench, unit=unit))
    with contextlib.suppress(subprocess.SubprocessError, OSError, msgspec.DecodeError):
        done = subprocess.run(
            [sys.executable, "-m", "coevolve.hdl.elaboration"],
            input=question,
            capture_output=True,
            cwd=ROOT,
            timeout=WALL_S,
            check=True,
        )
        return tuple(msgspec.json.decode(done.stdout, type=list[str]))
    return ()


def placed(found: Diagnostics, sources: SourceManager) -> Iterator[str]:
    """Yield those errors that stand in the testbench."""
    engine = DiagnosticEngine(sources)
    for each in found:
        name, place = located(sources, each.location)
        if each.isError() and name == TESTBENCH:
            yield f"{place}: error: {engine.formatMessage(each)}"


def _elaborate(question: Question) -> list[str]:
    sources = SourceManager()
    files = (*question.unit.files, SourceFile(name=TESTBENCH, text=question.testbench))
    options = CompilationOptions()
    options.flags = LENIENT | CompilationFlags.LintMode
    options.defaultTimeScale = TimeScale.fromString(TIMESCALE)
    options.maxConstexprSteps = MOST_STEPS
    options.maxGenerateSteps = MOST_GENERATED
    options.maxInstanceDepth = MOST_DEPTH
    options.maxInstanceArray = MOST_GENERATED
    compilation = Compilation(Bag([options]))
    compilation.addSyntaxTree(parse(files, sources))
    return list(placed(compilation.getAllDiagnostics(), sources))


def _main() -> None:
    """Answer one question."""
    memory = MEMORY_MB << 20
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    question = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Question)
    sys.stdout.buffer.write(msgspec.json.encode(_elaborate(question)))


if __name__ == "__main__":
    _main()
