"""What is done to a run: full disks, stepped clocks and cut connections; signals are `os.kill`."""

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
from pathlib import Path
from random import Random

CLONE_NEWNS = 0x00020000
SYS_PIDFD_GETFD = 438
"""The same on all architectures."""

_libc = ctypes.CDLL(None, use_errno=True)

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <fcntl.h>
#include <sys/mman.h>
/* Adds the seconds of a file to the wall clock that Python's interpreter reads. Native code of
   libraries is left out: it waits for absolute times, which nothing here can step. */
static volatile const int64_t *offset;
__attribute__((constructor)) static void open_offset(void) {
  const char *path = getenv("CHAOS_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file >= 0) {
    void *found = mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) offset = found;
  }
}
static int is_python(void *caller) {
  Dl_info found;
  if (!dladdr(caller, &found) || !found.dli_fname) return 0;
  const char *slash = strrchr(found.dli_fname, '/');
  const char *name = slash ? slash + 1 : found.dli_fname;
  return !strncmp(name, "python", 6) || !strncmp(name, "libpython", 9);
}
int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int answer = real(clock, now);
  if (clock == CLOCK_REALTIME && offset && *offset && is_python(__builtin_return_address(0)))
    now->tv_sec += *offset;
  return answer;
}
"""


def own_mounts() -> None:
    """Give this process, and those that it starts, mounts of their own. Raises PermissionError."""
    if _libc.unshare(CLONE_NEWNS):
        number = ctypes.get_errno()
        raise PermissionError(number, os.strerror(number))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True, capture_output=True)


class Disk:
    """A small file system of its own for the run's folder."""

    def __init__(self, folder: Path, size_mb: int) -> None:
        """Mount it at ``folder``. Raises PermissionError or CalledProcessError."""
        own_mounts()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "chaos", str(folder)],
            check=True,
            capture_output=True,
        )
        self._folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave no page."""
        with contextlib.suppress(OSError), self._filler.open("wb") as file:
            free = shutil.disk_usage(self._filler.parent).free
            os.posix_fallocate(file.fileno(), 0, free)
        with contextlib.suppress(OSError), self._filler.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        """Give the space back."""
        self._filler.unlink(missing_ok=True)

    def unmount(self) -> None:
        """Remove the file system."""
        subprocess.run(["umount", "--lazy", str(self._folder)], check=True)


class Clock:
    """The wall clock of the run's processes, which can be stepped."""

    def __init__(self, folder: Path) -> None:
        """Compile what steps it. Raises OSError or CalledProcessError without a C compiler."""
        self._offset = folder / "clock"
        self._library = folder / "clock.so"
        self.step(0)
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(self._library), "-ldl"],
            input=CLOCK.encode(),
            check=True,
            capture_output=True,
        )

    def environment(self) -> dict[str, str]:
        """Return the variables of processes that live by this clock."""
        return {"CHAOS_CLOCK": str(self._offset), "LD_PRELOAD": str(self._library)}

    def step(self, seconds: int) -> None:
        """Let the clock be wrong by so many seconds from now on."""
        with self._offset.open("r+b" if self._offset.exists() else "w+b") as file:
            file.write(seconds.to_bytes(8, "little", signed=True))


def cut_connection(pid: int, random: Random) -> bool:
    """Shut down one connection of a process, and return whether it had any."""
    connected = [each for each in _sockets(pid) if _is_connected(each)]
    chosen = random.choice(connected) if connected else None
    if chosen is not None:
        with contextlib.suppress(OSError):
            chosen.shutdown(socket.SHUT_RDWR)
    return chosen is not None


def _sockets(pid: int) -> list[socket.socket]:
    """Return copies of a process's sockets; closing them does not close the process's own."""
    found: list[socket.socket] = []
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        for entry in sorted(Path(f"/proc/{pid}/fd").iterdir(), key=lambda each: int(each.name)):
            with contextlib.suppress(OSError):
                if str(entry.readlink()).startswith("socket:"):
                    copy = _libc.syscall(SYS_PIDFD_GETFD, process, int(entry.name), 0)
                    if copy >= 0:
                        found.append(socket.socket(fileno=copy))
        os.close(process)
    return found


def _is_connected(each: socket.socket) -> bool:
    try:
        each.getpeername()
    except OSError:
        return False
    return True
