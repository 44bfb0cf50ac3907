"""Answers the questions of `hdl.gate.elaboration`, as the server behind them.

Each answer is computed in a separate process, so a text that crashes it does no harm.
"""

from collections.abc import Iterator

import msgspec
from pyslang import DiagnosticEngine, Diagnostics, SourceManager
from pyslang.ast import CompilationFlags

from coevolve.environments.hdl.adopt.bench_parameters import bench_use
from coevolve.environments.hdl.coverage.instrument import instrument
from coevolve.environments.hdl.designs.rtl import (
    compilation_of,
    elaborate_here,
    located,
    options_for,
    parse,
)
from coevolve.environments.hdl.gate.elaboration import TESTBENCH, BenchUse, Question, Refusal
from coevolve.environments.hdl.gate.extents import bounded_options, excesses
from coevolve.environments.hdl.gate.fork_server import serve
from coevolve.environments.hdl.gate.parameters import without_parameters
from coevolve.environments.hdl.gate.reads import proven_reads
from coevolve.environments.hdl.gate.testbench_top import top_module
from coevolve.environments.hdl.simulate.messages import (
    CompileFailed,
    NotCovered,
    Rejected,
    SourceFile,
    Unit,
    Violation,
)
from protocols.errors import ConfigError

MOST_STEPS = 10_000
"""Maximum steps of evaluating constants, in a search for errors."""

MOST_GENERATED = 256
MOST_DEPTH = 16
MOST_VIOLATIONS = 8
MOST_ERRORS = 8


def answer(question: bytes) -> bytes:
    """Return the answer to an encoded `Question`, in JSON."""
    return msgspec.json.encode(_answer(msgspec.msgpack.decode(question, type=Question)))


def _answer(question: Question) -> object:
    match question.about:
        case "complaints":
            return _complaints(question)
        case "top":
            return _top(question)
        case "parameters":
            top = question.told_top if question.trusted else ""
            return without_parameters(question.testbench, question.unit, top)
        case "design":
            return _is_readable(question.unit)
        case "reads":
            return _reads(question)
        case "use":
            use = bench_use(question.testbench, question.unit, question.told_top, question.instance)
            return BenchUse() if isinstance(use, NotCovered) else use


def _complaints(question: Question) -> list[str]:
    sources = SourceManager()
    options = options_for()
    options.flags |= CompilationFlags.LintMode
    options.maxConstexprSteps = MOST_STEPS
    options.maxGenerateSteps = MOST_GENERATED
    options.maxInstanceDepth = MOST_DEPTH
    options.maxInstanceArray = MOST_GENERATED
    compilation = compilation_of(parse(_files(question), sources), options)
    return list(_placed(compilation.getAllDiagnostics(), sources))


def _top(question: Question) -> str | Refusal:
    sources = SourceManager()
    tree = parse([_testbench(question)], sources)
    top = top_module(tree.root, question.unit, question.told_top)
    if isinstance(top, NotCovered):
        errors = list(_placed(tree.diagnostics, sources))
        return CompileFailed(message="\n".join(errors[:MOST_ERRORS])) if errors else top
    found = () if question.trusted else _violations(question, top)
    return Rejected(violations=found) if found else top


def _violations(question: Question, top: str) -> tuple[Violation, ...]:
    sources = SourceManager()
    tree = parse(_files(question), sources)
    found: set[tuple[int, int, str]] = set()
    for where, message in excesses(tree, sources, top, question.unit):
        name, line, column = where.rsplit(":", 2)
        if name == TESTBENCH:
            found.add((int(line), int(column), message))
    return tuple(
        Violation(line=line, column=column, message=message)
        for line, column, message in sorted(found)[:MOST_VIOLATIONS]
    )


def _reads(question: Question) -> list[tuple[int, int]]:
    sources = SourceManager()
    top = top_module(parse([_testbench(question)], sources).root, question.unit, question.told_top)
    if isinstance(top, NotCovered):
        return []
    sources = SourceManager()
    options = bounded_options(top)
    return proven_reads(
        compilation_of(parse(_files(question), sources), options), sources, TESTBENCH
    )


def _is_readable(unit: Unit) -> bool:
    """Return whether the design elaborates and can be instrumented."""
    try:
        instrument(elaborate_here(unit))
    except ConfigError:
        return False
    return True


def _placed(found: Diagnostics, sources: SourceManager) -> Iterator[str]:
    """Yield the errors that are in the testbench."""
    engine = DiagnosticEngine(sources)
    for each in found:
        name, place = located(sources, each.location)
        if each.isError() and name == TESTBENCH:
            yield f"{place}: error: {engine.formatMessage(each)}"


def _testbench(question: Question) -> SourceFile:
    return SourceFile(name=TESTBENCH, text=question.testbench)


def _files(question: Question) -> tuple[SourceFile, ...]:
    return (*question.unit.files, _testbench(question))


if __name__ == "__main__":
    serve(answer)
