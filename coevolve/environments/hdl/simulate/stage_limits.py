"""The limits of each stage of a simulation in the sandbox, and the words for one that failed."""

import signal

from coevolve.environments.hdl.simulate.messages import SimulationLimits, TimedOut
from coevolve.environments.sdk import Finished, StageLimits

TRANSLATION_CPU_S = 6.0
TRANSLATION_MEMORY_MB = 1000
TRANSLATION_FILE_MB = 16
"""Limits of the translation; an ordinary testbench uses a fiftieth of each."""

COMPILE_MEMORY_MB = 4000
COMPILE_OUTPUT_BYTES = 65_536
MODEL_FILE_MB = 256
SIMULATION_FILE_MB = 64
SOLVER_CPU_S = 20.0
"""Enough for the solver's maximum steps on a slow machine: 10 million steps on hard constraints
take from 2 to 15 s."""

SOLVER_STEPS, SOLVER_DIED = 4, 5
"""Exit statuses of a simulation, as in ``cpp/report.h``."""

CRASHED = (
    "; often that is $feof of a file that is closed or was not found (test what $fopen returns), "
    "or a function that calls itself without end"
)

PROCESSES = 96
SPARE_OUTPUT_BYTES = 4096
"""Allowance for output that the harness does not count: writes to file descriptors, and messages
when the runtime aborts."""


def stage_limits(stage: str, limits: SimulationLimits, left_s: float) -> StageLimits:
    """Return the limits of a stage, ``left_s`` seconds before the end of the whole evaluation."""
    simulating = stage == "simulate"
    cpu_s, memory_mb, file_mb = bounds(stage, limits)
    return StageLimits(
        cpu_s=max(cpu_s, SOLVER_CPU_S) if simulating else cpu_s,
        wall_s=max(left_s, 0.1),
        memory_mb=memory_mb,
        file_mb=file_mb,
        processes=PROCESSES,
        output_bytes=(
            limits.log_bytes + SPARE_OUTPUT_BYTES if simulating else COMPILE_OUTPUT_BYTES
        ),
    )


def bounds(stage: str, limits: SimulationLimits) -> tuple[float, int, int]:
    """Return a stage's limits: CPU seconds, MB of memory, and MB of a file."""
    match stage:
        case "simulate":
            return limits.cpu_s, limits.memory_mb, SIMULATION_FILE_MB
        case "verilate":
            cpu_s = min(limits.compile_cpu_s, TRANSLATION_CPU_S)
            return cpu_s, TRANSLATION_MEMORY_MB, TRANSLATION_FILE_MB
        case _:
            return limits.compile_cpu_s, COMPILE_MEMORY_MB, MODEL_FILE_MB


def timed_out(stage: str, done: Finished, limits: SimulationLimits, output: str) -> TimedOut:
    """Return the outcome of a stage that exceeded a limit; ``output`` is the last it printed."""
    cpu_s, memory_mb, _ = bounds(stage, limits)
    amount = {
        "cpu": f"{cpu_s:g} s of CPU time",
        "wall": f"{limits.wall_s:g} s",
        "memory": f"{memory_mb} MB of memory",
    }[done.limit]
    if stage != "simulate":
        words = f"compiling took more than {amount}; make the testbench smaller"
        return TimedOut(stage="compile", message=words)
    words = f"the simulation took more than {amount}; it may loop without advancing time"
    return TimedOut(stage="simulate", message=f"{words}\n{output}".strip())


def solver(limits: SimulationLimits) -> str:
    """Return the command line of the solver that constrained ``randomize()`` starts."""
    return f"z3 --in rlimit={limits.solver_steps} memory_max_size={_solver_mb(limits)}"


def _solver_mb(limits: SimulationLimits) -> int:
    """Return the solver's memory limit, below the kernel's, so that the solver stops by itself."""
    return limits.memory_mb // 2


def solver_cut(status: int, limits: SimulationLimits) -> str:
    """Return the words for a simulation that ended with `SOLVER_STEPS` or `SOLVER_DIED`."""
    amount = (
        f"{limits.solver_steps} steps"
        if status == SOLVER_STEPS
        else f"{SOLVER_CPU_S:g} s of CPU time or {_solver_mb(limits)} MB of memory"
    )
    return (
        f"the solver of constrained randomize() took more than {amount}; constrain less, or "
        "call it less often"
    )


def last_words(done: Finished, output: str) -> str:
    """Return why a simulation ended early; ``output`` is the last it printed."""
    if done.status >= 0:
        return output or f"the simulation ended with exit status {done.status}"
    why = CRASHED if done.status == -signal.SIGSEGV else ""
    return f"{output}\nthe simulation ended with signal {-done.status}{why}".strip()
