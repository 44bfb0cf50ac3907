"""Runs the stages of one testbench in the sandbox: translate, compile, link, simulate.

Every testbench gets its own folder, which is always removed afterwards. Files that the tools leave
there are read within limits and without following links. A failure that the testbench caused is
raised as `Stopped`, with the outcome; an infrastructure failure as SimulatorError.
"""

import math
import os
import re
import shutil
import signal
import stat
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from coevolve.environments.hdl.coverage.plan import escaped
from coevolve.environments.hdl.coverage.scopes import (
    HEADER,
    PREFIX,
    SOURCE,
    Scope,
    find_duts,
    inlining,
    read_scopes,
    sharing,
)
from coevolve.environments.hdl.coverage.unmeasured import MOST_COMBINATIONS
from coevolve.environments.hdl.designs.rtl import HEADERS, TIMESCALE
from coevolve.environments.hdl.gate.diagnostics import explain
from coevolve.environments.hdl.gate.elaboration import TESTBENCH
from coevolve.environments.hdl.simulate.messages import (
    CompileFailed,
    DataFile,
    NotCovered,
    Outcome,
    SimulationFailed,
    SimulationLimits,
    SourceFile,
    StageCost,
    TimedOut,
    Unit,
)
from coevolve.environments.hdl.simulate.runtime import SOURCES, Runtime
from coevolve.environments.hdl.simulate.stage_limits import (
    SIMULATION_FILE_MB,
    SOLVER_DIED,
    SOLVER_STEPS,
    TRANSLATION_FILE_MB,
    last_words,
    solver,
    solver_cut,
    stage_limits,
    timed_out,
)
from coevolve.environments.hdl.simulate.stops import endings
from coevolve.environments.hdl.simulate.toolchain import Toolchain
from coevolve.environments.sdk import Finished, Sandbox, WorkFolder
from protocols.errors import SimulatorError

MODEL = "model"
"""Folder of the translated design inside the work folder."""

TRANSLATE = (
    *("--cc", "--exe", "--timing", "--assert", "-O0", "-fgate", "--quiet", "-Wno-fatal"),
    *("--coverage-line", "--coverage-toggle", "--coverage-expr", "--coverage-user"),
    *("--coverage-expr-max", str(MOST_COMBINATIONS)),
    *("--output-split", "0", "--x-initial", "0", "--x-assign", "fast"),
    *("--timescale", TIMESCALE, "--prefix", PREFIX, "--Mdir", MODEL),
)
"""Without optimization, so that no point vanishes, except for the pass ``gate``: without it, a
design that races on an edge takes another branch than with Verilator's own settings. Initial values
are zeros: random ones would hit toggles that the testbench did not cause."""

BLANK_TOP = "coevolve_blank_testbench"

COUNTERS = '#include "counters.h"\n'

SETTINGS = f"""`verilator_config
coverage_off -file "{TESTBENCH}"
lint_off -file "*"
"""

NO_PROGRAM = (
    f"{TESTBENCH}: error: the simulator cannot make a program of this testbench; write it more "
    "simply"
)

TOO_LARGE = (
    f"{TESTBENCH}: error: what the simulator makes of this testbench has more than "
    f"{TRANSLATION_FILE_MB} MB; make it smaller"
)
TOO_MUCH_WRITTEN = (
    f"the simulation wrote more than {SIMULATION_FILE_MB} MB into a file, of coverage or its own; "
    "take a module inside of the design for the top, or parameters that make it smaller"
)
MOST_COVERAGE_BYTES = SIMULATION_FILE_MB << 20
LOG_CHARACTERS = 2000


class Stopped(Exception):  # noqa: N818, it carries an outcome
    """The testbench failed at some stage; carries its outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class BuildError(SimulatorError):
    """Verilator's output did not compile or link.

    Building the design alone shows whether the testbench or the machine is at fault.
    """


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The tools that a simulation needs."""

    toolchain: Toolchain
    runtime: Runtime
    sandbox: Sandbox


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A simulation that ran to its end."""

    ended: Literal["finish", "quiet", "slot_limit"]
    slots: int
    time: int
    output: str
    errors: int
    """Calls of ``$error`` and failed assertions, of the testbench and of the design."""

    stopped: int
    """Line of the ``$stop`` that ended it; 0 if none did, or at the end of the stimulus."""

    @property
    def log(self) -> str:
        """The last part of the output."""
        return self.output[-LOG_CHARACTERS:]


@dataclass(kw_only=True)
class Simulation:
    """The stages of one testbench, and what they have cost so far."""

    tools: Tools
    unit: Unit
    folder: Path
    limits: SimulationLimits
    started: float = field(default_factory=time.monotonic)
    costs: list[StageCost] = field(default_factory=list[StageCost])
    endings: frozenset[int] = frozenset()
    """Lines of the ``$stop`` by which the testbench ends its stimulus."""

    def translate(
        self, files: Sequence[SourceFile], testbench: str, top: str, *, settings: str = ""
    ) -> None:
        """Translate the design's ``files``, its plan and the testbench, with extra ``settings``.

        Raises Stopped with CompileFailed or TimedOut.
        """
        files = (*files, *self.unit.plan)
        for file in files:
            self._write(file.name, file.text)
        self._write(TESTBENCH, testbench)
        self.endings = endings(testbench)
        names = [file.name for file in files if not file.name.endswith(HEADERS)]
        words = ["--top-module", top, "settings.vlt", *names, TESTBENCH]
        self._write("settings.vlt", SETTINGS + settings)
        self._verilate(words, testbench)
        inlined = frozenset[str]()
        while parts := self._sharing() - inlined:
            inlined |= parts
            shutil.rmtree(self.folder / MODEL)
            file = f"inline{len(inlined)}.vlt"
            self._write(file, inlining(inlined, self.unit))
            self._verilate(["-finline", file, *words], testbench)
        # Not before: Verilator looks for the modules that it lacks in all files.
        if self.unit.data:
            write_data(self.folder, self.unit.data)
            self.tools.sandbox.own(self.folder)

    def _verilate(self, words: Sequence[str], testbench: str) -> None:
        self.tools.sandbox.own(self.folder)
        command = [str(self.tools.runtime.verilator), *TRANSLATE, *words]
        done = self._stage("verilate", command, self.folder)
        if done.status:
            _blame_machine_for_kill(done, "verilator")
            if done.status == -signal.SIGXFSZ:
                raise Stopped(CompileFailed(message=TOO_LARGE))
            raise Stopped(CompileFailed(message=explain(done.output, testbench, self.unit)))

    def _sharing(self) -> frozenset[str]:
        return sharing(self._scopes(), self.model(), self.unit)

    def _scopes(self, model: str = "") -> tuple[Scope, ...]:
        header, source = (self.read(f"{MODEL}/{name}") for name in (HEADER, SOURCE))
        return read_scopes(header, source, model)

    def find_duts(self, told: str = "", *, several: bool = False) -> tuple[str, ...]:
        """Return the printed path of the design's instance in the translated model.

        ``told`` is the instance's name if there may be several; with ``several``, all that have the
        design's parameters are returned. Raises Stopped with NotCovered if there is none, or more
        than one, or if another instance prints as if it were inside it.
        """
        scopes = self._scopes(self.model())
        found = find_duts(scopes, self.unit.top, told, several=several)
        if isinstance(found, NotCovered):
            raise Stopped(found)
        if self.unit.plan and (outside := escaped(scopes, found, self.unit)):
            raise Stopped(outside)
        return found

    def model(self) -> str:
        """Return the C++ of the translated model."""
        sources = sorted((self.folder / MODEL).glob("*.cpp"))
        return "".join(self.read(f"{MODEL}/{source.name}") for source in sources)

    def compile(self, before_main: str = "") -> None:
        """Compile the C++; ``before_main`` is C++ between the model and its main loop.

        Raises Stopped with CompileFailed or TimedOut, and BuildError.
        """
        model, runtime = self.folder / MODEL, self.tools.runtime
        sources = sorted(path.name for path in model.iterdir() if path.suffix == ".cpp")
        main = (SOURCES / "main.cpp").read_text()
        includes = "".join(f'#include "{name}"\n' for name in sources)
        self._write(f"{MODEL}/all.cc", COUNTERS + includes + before_main + main)
        clang = str(self.tools.toolchain.clang)
        flags = [*runtime.flags("-O0"), "-I.", "-include-pch", str(runtime.header)]
        self._build("compile", [clang, *flags, "-c", "all.cc", "-o", "all.o"], model)
        linker = self.tools.toolchain.linker
        use = [f"-fuse-ld={linker}"] if linker else []
        library = [str(runtime.library), f"-Wl,-rpath,{runtime.folder}", "-lpthread"]
        self._build("link", [clang, *use, "all.o", *library, "-o", "../simulation"], model)

    def run(self, seed: int, mutant: int = 0) -> Ran:
        """Run the compiled simulation; ``mutant`` is for a switched design.

        Raises Stopped with SimulationFailed or TimedOut.
        """
        limits = self.limits
        command = [
            str(self.folder / "simulation"),
            *(str(seed), str(limits.slots), str(limits.log_bytes)),
            *(str(math.ceil(limits.cpu_s)), str(limits.solver_steps), solver(limits)),
            str(mutant),
        ]
        done = self._stage("simulate", command, self.folder)
        _blame_machine_for_kill(done, "the simulation")
        if done.status in (SOLVER_STEPS, SOLVER_DIED):
            raise Stopped(TimedOut(stage="simulate", message=solver_cut(done.status, limits)))
        if done.status == -signal.SIGXFSZ:
            raise Stopped(SimulationFailed(message=TOO_MUCH_WRITTEN))
        if done.status:
            raise Stopped(SimulationFailed(message=last_words(done, self._said(done))))
        words = self.read("ended.txt", 1000).split()
        if len(words) != 5:
            raise Stopped(SimulationFailed(message=last_words(done, self._said(done))))
        return Ran(
            ended=cast("Literal['finish', 'quiet', 'slot_limit']", words[0]),
            slots=int(words[1]),
            time=int(words[2]),
            output=self._clean(done.output),
            errors=int(words[3]),
            stopped=0 if int(words[4]) in self.endings else int(words[4]),
        )

    def read(self, name: str, most_bytes: int = MOST_COVERAGE_BYTES) -> str:
        """Return what the simulation wrote into the file; empty if it is no regular file.

        Raises Stopped with SimulationFailed if it is longer than ``most_bytes``.
        """
        try:
            handle = os.open(self.folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return ""
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return ""
            found = file.read(most_bytes + 1)
        if len(found) > most_bytes:
            raise Stopped(SimulationFailed(message=f"{name} is larger than {most_bytes} bytes"))
        return found.decode("utf-8", "replace")

    def _build(self, stage: Literal["compile", "link"], command: list[str], cwd: Path) -> None:
        done = self._stage(stage, command, cwd)
        if done.status == 0:
            return
        _blame_machine_for_kill(done, stage)
        if stage == "compile" and re.search(
            rf"^(\./)?{PREFIX}\w*\.(cpp|h):\d+:\d+: error:", done.output, re.M
        ):
            raise Stopped(CompileFailed(message=NO_PROGRAM))
        raise BuildError(
            f"the {stage} stage of {self.unit.name} failed: {done.output[:2000].strip()}"
        )

    def _stage(
        self,
        stage: Literal["verilate", "compile", "link", "simulate"],
        command: Sequence[str],
        cwd: Path,
    ) -> Finished:
        """Run one tool. Raises Stopped with TimedOut if it exceeds a limit."""
        done = self.tools.sandbox.run(
            command,
            work=self.folder,
            cwd=cwd,
            limits=stage_limits(
                stage, self.limits, self.limits.wall_s - (time.monotonic() - self.started)
            ),
            environment={
                "PATH": "/usr/bin:/bin",
                "LC_ALL": "C",
                "HOME": str(self.folder),
                "TMPDIR": str(self.folder),
                "VERILATOR_ROOT": str(self.tools.runtime.root),
            },
        )
        self.costs.append(StageCost(stage=stage, cpu_s=done.cpu_s, wall_s=done.wall_s))
        if done.limit == "output" and stage == "simulate":
            raise Stopped(
                SimulationFailed(message="the simulation printed more than the log can hold")
            )
        if done.limit and done.limit != "output":
            raise Stopped(timed_out(stage, done, self.limits, self._said(done)))
        return done

    def _said(self, done: Finished) -> str:
        """Return the last part of a tool's output."""
        return self._clean(done.output)[-LOG_CHARACTERS:].strip()

    def _clean(self, text: str) -> str:
        """Return ``text`` without the machine's paths."""
        for place in (self.folder, self.tools.runtime.folder):
            text = text.replace(f"{place}/", "")
        return text

    def _write(self, name: str, text: str) -> None:
        handle = os.open(
            self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644
        )
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, 0o644)  # whatever the umask: the sandbox's user reads it
            file.write(text)


def write_data(folder: Path, data: Sequence[DataFile]) -> None:
    """Write what a design reads while it is simulated into its work folder."""
    for each in data:
        path = folder / each.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(each.text, encoding="utf-8")


@contextmanager
def simulation(tools: Tools, unit: Unit, limits: SimulationLimits) -> Generator[Simulation]:
    """Yield a new simulation, with a folder that is removed afterwards.

    Raises SimulatorError if the work folder fails, for example on a full disk.
    """
    work = WorkFolder()
    try:
        yield Simulation(tools=tools, unit=unit, folder=work.path, limits=limits)
    except OSError as error:
        raise SimulatorError(f"the work folder of {unit.name} failed: {error}") from error
    finally:
        work.remove()


def _blame_machine_for_kill(done: Finished, tool: str) -> None:
    """Raise SimulatorError if something else killed the tool; our limits never use SIGKILL."""
    if done.status in (-9, 137):
        raise SimulatorError(f"{tool} was killed; the machine may be out of memory")
