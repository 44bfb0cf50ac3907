"""The levels at which foreign code is isolated."""

from typing import Literal

SandboxLevel = Literal["namespaces", "seccomp", "limits"]
"""How foreign code is isolated, strongest first; each level includes the restrictions after it.

``namespaces``: no network, and no files but the toolchain and its own folder. ``seccomp``: no
sockets and no privileged system calls; the machine's readable files stay readable. ``limits``: only
limits on time, memory, processes and file sizes."""

LEVELS: tuple[SandboxLevel, ...] = ("namespaces", "seccomp", "limits")
"""Strongest first."""
