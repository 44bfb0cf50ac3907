"""The limits of each stage of a simulation in the sandbox."""

from coevolve.environments.hdl.simulate.messages import SimulationLimits
from coevolve.environments.sdk import StageLimits

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
