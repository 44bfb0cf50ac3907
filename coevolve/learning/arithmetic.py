"""The arithmetic of this machine, on which the bits of a step's weights depend."""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false

from functools import cache
from pathlib import Path

import torch

from protocols.config import PolicyConfig

CPU_INFO = Path("/proc/cpuinfo")


def arithmetic(policy: PolicyConfig) -> str:
    """Return the version of torch and the processor or GPU that computes, in words."""
    device = torch.cuda.get_device_name() if policy.device == "cuda" else _processor()
    return f"torch {torch.__version__} on {device}"


@cache
def _processor() -> str:
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{named[0] if named else 'an unknown processor'} ({capability})"
