"""Ray nodes that share nothing: each in network, mount and process namespaces of its own.

A node has its own home, temporary files, shared memory and folder for runs. It shares only the
installed programs, as machines with one image would. Nothing of it is left when it ends: the
kernel kills every process of a node with the node's first one.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Literal

from coevolve.environments.cache_folder import CACHE_VARIABLE, cache_folder
from tests.commands import ROOT

PORT = 6379
HEAD = "10.213.7.1"
ADDRESS = f"{HEAD}:{PORT}"
JOB_SERVER = f"http://{HEAD}:8265"
TOKEN = "0123456789abcdef0123456789abcdef"
PRIVATE = Path("/mnt")
"""Where each node has files that no other node sees; it is on every Linux."""

HOME = PRIVATE / "home"
START_S = 60.0

_TOOLS = ("unshare", "nsenter", "ip", "mount")
_INIT = "echo; while true; do sleep 1000 & wait; done"
"""The first process of a node, which buries orphans as the init of a machine does."""

_UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


class Node:
    """One node: a process that waits in namespaces of its own, and whatever runs beside it."""

    def __init__(self, number: int) -> None:
        self.address = f"10.213.7.{number}"
        self._holder = subprocess.Popen([*_UNSHARE, "sh", "-c", _INIT], stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        self._holder.stdout.readline()
        self.pid = _child_of(self._holder.pid)
        self.ray: subprocess.Popen[str] | None = None
        self._port: tuple[Node, str] | None = None
        for folder in (str(PRIVATE), "/dev/shm"):
            self.run("mount", "-t", "tmpfs", "tmpfs", folder)
        self.run("mkdir", str(HOME), str(PRIVATE / "tmp"))
        self.run("ip", "link", "set", "lo", "up")

    def command(self, *words: str) -> list[str]:
        """Return the command that carries out ``words`` on this node."""
        return ["nsenter", "--target", str(self.pid), "--net", "--mount", "--pid", *words]

    def run(self, *words: str) -> str:
        """Carry out a command on this node and return what it prints. Raises on failure."""
        done = subprocess.run(
            self.command(*words),
            env=self.environment(),
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(
        self, *words: str, log: Path | None = None, also: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a command on this node in its own home; its output goes to ``log``."""
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(log.open("a")) if log else subprocess.DEVNULL
            return subprocess.Popen(
                self.command("env", "--chdir", str(HOME), *words),
                env=self.environment() | dict(also or {}),
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def seen(self, path: Path) -> Path:
        """Return the path under which this process sees a file of the node."""
        return Path(f"/proc/{self.pid}/root{path}")

    def environment(self) -> dict[str, str]:
        """Return the environment variables of the node's user."""
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(HOME),
            "TMPDIR": str(PRIVATE / "tmp"),
            "PYTHONPATH": str(ROOT),
            CACHE_VARIABLE: str(cache_folder()),
            "RAY_AUTH_TOKEN": TOKEN,
            "OMP_NUM_THREADS": "1",
        }

    def join(self, log: Path, *flags: str, also: Mapping[str, str] | None = None) -> None:
        """Start Ray: as the head if this is node 1, else as one of its workers."""
        role = (
            ("--head", f"--port={PORT}", f"--dashboard-host={HEAD}")
            if self.address == HEAD
            else (f"--address={ADDRESS}",)
        )
        self.ray = self.start(
            "ray",
            "start",
            *role,
            f"--node-ip-address={self.address}",
            "--num-cpus=2",
            "--object-store-memory=200000000",
            "--disable-usage-stats",
            "--block",
            *flags,
            log=log,
            also={"RAY_AUTH_MODE": "token"} | dict(also or {}),
        )

    def kill_ray(self) -> None:
        """Kill Ray's own process of this node, as a crash of the machine's agent would."""
        self.run("pkill", "-KILL", "-x", "raylet")

    def wire(self, hub: "Node") -> None:
        """Connect this node with a port of the bridge of ``hub``."""
        port = f"port{self.address.rpartition('.')[2]}"
        ends = ("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0")
        # Seen from here, where both have process ids.
        inside = ("nsenter", "--target", str(hub.pid), "--net", *ends, "netns", str(self.pid))
        subprocess.run(inside, check=True)
        hub.run("ip", "link", "set", port, "master", "hub0", "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        self._port = hub, port

    def link(self, state: Literal["up", "down"]) -> None:
        """Mend or cut the connection with the bridge, as if at the plug."""
        assert self._port is not None
        hub, port = self._port
        hub.run("ip", "link", "set", port, state)

    def close(self) -> None:
        """End the node and all of its processes."""
        self._holder.kill()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._holder.wait()
        if self.ray is not None:
            self.ray.wait()


@contextlib.contextmanager
def nodes(count: int) -> Generator[list[Node]]:
    """Yield ``count`` nodes that reach each other over a bridge; Ray is not started yet."""
    with contextlib.ExitStack() as stack:
        hub = stack.enter_context(contextlib.closing(Node(250)))
        hub.run("ip", "link", "add", "hub0", "type", "bridge")
        hub.run("ip", "link", "set", "hub0", "up")
        found: list[Node] = []
        for number in range(1, count + 1):
            node = stack.enter_context(contextlib.closing(Node(number)))
            node.wire(hub)
            found.append(node)
        yield found


def forbidden() -> str:
    """Return why this machine lets nobody make such nodes; empty if it does."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs the programs {', '.join(missing)}"
    needed = (
        "ip link add hub0 type bridge",
        "ip link add port0 type veth peer name eth0",
        f"mount -t tmpfs tmpfs {PRIVATE}",
    )
    tried = subprocess.run(
        [*_UNSHARE, "sh", "-c", " && ".join(needed)], capture_output=True, text=True, check=False
    )
    return f"may not make namespaces: {tried.stderr.strip()}" if tried.returncode else ""


def _child_of(pid: int) -> int:
    deadline = time.monotonic() + START_S
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while not (found := children.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return int(found[0])
