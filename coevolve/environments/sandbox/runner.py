"""Runs one untrusted program at a time and isolates it from the machine.

`Sandbox.run` guarantees: the program ends by the wall-clock limit; when it returns, no process of
the program is left; it reads at most ``output_bytes`` of the program's output. Any number of
threads may call it. If the machine fails to start the program, it raises SimulatorError; anything
that the program does is a `Finished`. `Sandbox.open` leaves a program running, as
`sandbox.piped` describes.

Levels, from the strongest to the weakest:

``namespaces``. bubblewrap: no network, no other processes, no ``/proc``, no ``/etc`` except the
files for linking libraries, no files but ``/usr``, the toolchain (both read-only), a small ``/tmp``
and the work folder; the system calls of `sandbox.seccomp` are denied; no capabilities. If the
caller is root, each run of a program has a different unprivileged user.

``seccomp``. The same system calls are denied, so there is no network and no way out of the process
group; if the caller is root, the program has its own user, which can write only in its work folder.

``limits``. CPU seconds, address space, file sizes, processes and open files; these limits hold at
every level.

Not limited: the number of files in the work folder (only their sizes); the CPU seconds of all
processes together (only their number and the wall clock). Kernel vulnerabilities are not covered.
At ``seccomp``, the program can read every file that the machine lets all users read. At ``limits``,
the program can do everything that the calling user may do; a process that leaves its session
outlives the run; if the caller is root, the number of processes is not limited.
"""

import contextlib
import itertools
import math
import os
import re
import secrets
import signal
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coevolve.environments.sandbox import bubblewrap, seccomp
from coevolve.environments.sandbox.bubblewrap import Namespaces
from coevolve.environments.sandbox.levels import LEVELS, SandboxLevel
from coevolve.environments.sandbox.piped import PipedProgram
from coevolve.environments.sandbox.supervision import Confined, Ended, found_program, supervise
from protocols.errors import DependencyError, SimulatorError

REMEDIES: dict[SandboxLevel, str] = {
    "namespaces": "install the package bubblewrap and, for an ordinary user, allow user namespaces "
    "(sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, and "
    "kernel.apparmor_restrict_unprivileged_userns=0), or in a container use --privileged",
    "seccomp": "run on a kernel with CONFIG_SECCOMP_FILTER, and let all users read the toolchain",
    "limits": "install the package util-linux, for prlimit",
}

USERS = range(61184, 65520)
"""The user ids that systemd assigns to services while they run; they own no files."""

OPEN_FILES = 256
_OUT_OF_MEMORY = re.compile(r"bad_alloc|out of memory|cannot allocate memory", re.IGNORECASE)
_NOT_STARTED = (1, 126, 127)
_next_user = itertools.count(secrets.randbelow(len(USERS)))


@dataclass(frozen=True, kw_only=True)
class StageLimits:
    """Limits of one program."""

    cpu_s: float
    """CPU seconds of each process, rounded up to a whole second."""

    wall_s: float
    memory_mb: int
    """Address space of each process."""

    file_mb: int
    """Size of each file."""

    processes: int
    """Number of processes, threads included."""

    output_bytes: int


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A program that has ended."""

    status: int
    """Exit status; negative for a signal."""

    output: str
    """Standard output and standard error in one stream; at most ``output_bytes``."""

    limit: Literal["", "cpu", "wall", "memory", "output"]
    """The limit that ended it. ``memory`` is inferred from the end of its output."""

    cpu_s: float
    wall_s: float


PROBE = StageLimits(
    cpu_s=5.0, wall_s=20.0, memory_mb=1000, file_mb=1, processes=8, output_bytes=4096
)


class Sandbox:
    """Runs programs at the strongest level that the machine supports, or at a given level."""

    level: SandboxLevel

    def __init__(self, read_only: Sequence[Path], level: SandboxLevel | None = None) -> None:
        """Test ``level``, or the levels from the strongest down, with a small program.

        ``read_only`` are the folders, besides the system's, that programs need. Raises
        DependencyError if no tested level works here.
        """
        self._read_only = tuple(path.absolute() for path in read_only)
        refusals: list[str] = []
        for self.level, self._namespaces, self._count_is_shared in _ways(level):
            refusal = self._refusal()
            if not refusal:
                return
            refusals.append(f"'{self.level}' ({refusal})")
        remedy = REMEDIES[level or "limits"]
        raise DependencyError(f"this machine has no sandbox {', '.join(refusals)}; {remedy}")

    def own(self, work: Path) -> None:
        """Give the folder and its content to the user inside; other users cannot enter."""
        work.chmod(0o700)
        if self._drops:
            user = USERS[next(_next_user) % len(USERS)]
            for path in (work, *work.rglob("*")):
                os.chown(path, user, user, follow_symlinks=False)

    def run(
        self,
        argv: Sequence[str],
        *,
        work: Path,
        cwd: Path,
        limits: StageLimits,
        environment: Mapping[str, str],
    ) -> Finished:
        """Run ``argv``, whose program is an absolute path, in ``cwd`` inside the ``work`` folder.

        The folder must have been passed to ``own``; ``environment`` is the complete environment.
        Raises SimulatorError if the program cannot be started.
        """
        try:
            with self._confined(argv, work, cwd, limits) as confined:
                ended = supervise(
                    confined,
                    environment=environment,
                    wall_s=limits.wall_s,
                    output_bytes=limits.output_bytes,
                )
                if not ended.stopped and not confined.started():
                    words = ended.output.decode(errors="replace").strip()
                    raise SimulatorError(f"bubblewrap could not start a program: {words[:500]}")
        except OSError as error:
            raise _not_started(argv, error) from None
        return _finished(ended, limits)

    def open(
        self,
        argv: Sequence[str],
        *,
        work: Path,
        cwd: Path,
        limits: StageLimits,
        environment: Mapping[str, str],
    ) -> PipedProgram:
        """Start ``argv`` as `run` does, and leave it running; the caller closes it.

        The limit on wall clock is that of the first exchange, the one on output that of each
        exchange, and the one on CPU seconds that of the program's life. Raises
        SimulatorError if the program cannot be started.
        """
        held = ExitStack()
        try:
            confined = held.enter_context(self._confined(argv, work, cwd, limits))
            return PipedProgram(
                confined,
                environment=environment,
                wall_s=limits.wall_s,
                output_bytes=limits.output_bytes,
                held=held,
            )
        except OSError as error:
            held.close()
            raise _not_started(argv, error) from None

    @property
    def _drops(self) -> bool:
        return os.geteuid() == 0 and self.level != "limits"

    @contextlib.contextmanager
    def _confined(
        self, argv: Sequence[str], work: Path, cwd: Path, limits: StageLimits
    ) -> Generator[Confined]:
        """Yield the command that starts ``argv`` in the sandbox."""
        command = (*_rlimits(limits, self._count_is_shared), *argv)
        user = _become(work.stat().st_uid if self._drops else None)
        if self.level != "namespaces":
            whole = (*user, *command)
            if self.level == "seccomp":
                whole = seccomp.confined(whole)
            yield Confined(argv=whole, cwd=cwd)
            return
        with (
            bubblewrap.filter_file(seccomp.program()) as filter_fd,
            bubblewrap.report_pipe() as (report, report_fd),
        ):
            inside = bubblewrap.command(
                self._namespaces,
                read_only=self._read_only,
                work=work,
                cwd=cwd,
                filter_fd=filter_fd,
                report_fd=report_fd,
            )
            by_root = self._namespaces == bubblewrap.BY_ROOT
            yield Confined(
                argv=(*inside, *user, *command) if by_root else (*user, *inside, *command),
                cwd=Path("/"),
                pass_fds=(filter_fd, report_fd),
                kill=report.stop,
                started=report.started,
                code=bubblewrap.code_of_program,
            )

    def _refusal(self) -> str:
        """Return why a program that starts another one cannot run here; empty if it can."""
        with tempfile.TemporaryDirectory(prefix="sandbox_") as folder:
            work = Path(folder)
            argv = ("/bin/sh", "-c", "/bin/true & wait $!")
            try:
                self.own(work)
                ended = self.run(argv, work=work, cwd=work, limits=PROBE, environment={})
            except (SimulatorError, DependencyError) as error:
                return str(error)
            return "" if ended.status == 0 else ended.output.strip() or f"status {ended.status}"


def _ways(level: SandboxLevel | None) -> Iterator[tuple[SandboxLevel, Namespaces, bool]]:
    """Yield the variants to test: a level, its namespaces, and how processes are counted.

    The last says whether the limit counts the program's processes together with all others of the
    user. That is so at the weaker levels, and in a namespace on kernels before 5.14.
    """
    root = os.geteuid() == 0
    for each in (level,) if level else LEVELS:
        if each != "namespaces":
            yield each, (), not root
            continue
        if root:
            yield each, bubblewrap.BY_ROOT, False
        yield each, bubblewrap.BY_ANYONE, False
        if not root:
            yield each, bubblewrap.BY_ANYONE, True


def _become(user: int | None) -> tuple[str, ...]:
    """Return a command that changes to ``user``, if given, and dies with this process."""
    setpriv = (found_program("setpriv", "util-linux"), "--no-new-privs", "--pdeathsig", "KILL")
    if user is None:
        return setpriv
    if user not in USERS:
        raise SimulatorError(
            f"the sandbox runs as the owner of the work folder, not as user {user}"
        )
    ids = (f"--reuid={user}", f"--regid={user}")
    return (*setpriv, *ids, "--clear-groups", "--inh-caps=-all")


def _rlimits(limits: StageLimits, count_is_shared: bool) -> tuple[str, ...]:
    cpu_s = math.ceil(limits.cpu_s)
    processes = limits.processes + (_threads_of_user() if count_is_shared else 1)
    return (
        *(found_program("prlimit", "util-linux"), f"--cpu={cpu_s}:{cpu_s + 1}", "--core=0"),
        *(f"--as={limits.memory_mb << 20}", f"--fsize={limits.file_mb << 20}"),
        *(f"--nofile={OPEN_FILES}", f"--nproc={processes}", "--"),
    )


def _threads_of_user() -> int:
    """Return the number that the kernel compares with a limit on processes."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.geteuid():
                count += sum(1 for _ in (process / "task").iterdir())
    return count


def _not_started(argv: Sequence[str], error: OSError) -> SimulatorError:
    return SimulatorError(f"the sandbox could not start {argv[0]}: {error}")


def _finished(ended: Ended, limits: StageLimits) -> Finished:
    output = ended.output.decode(errors="replace")
    if ended.code in _NOT_STARTED and output.startswith(("prlimit: ", "setpriv: ")):
        raise SimulatorError(f"the sandbox could not start a program: {output.strip()}")
    return Finished(
        status=ended.code,
        output=output,
        limit=ended.stopped or _limit(ended, output, limits),
        cpu_s=ended.cpu_s,
        wall_s=ended.wall_s,
    )


def _limit(ended: Ended, output: str, limits: StageLimits) -> Literal["", "cpu", "memory"]:
    killed = ended.code == -signal.SIGKILL and ended.cpu_s >= limits.cpu_s
    if ended.code == -signal.SIGXCPU or killed:
        return "cpu"
    return "memory" if ended.code and _OUT_OF_MEMORY.search(output[-2000:]) else ""
