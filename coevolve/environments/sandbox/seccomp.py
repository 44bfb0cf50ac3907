"""Seccomp filters, as classic BPF programs, that deny system calls to untrusted code.

`program` is a deny list for any program. The calls in `DENIED` and any call that makes a namespace
fail with EPERM.
``clone3`` fails with ENOSYS, because a filter cannot see its flags; the C library then falls back
to ``clone``. The filter kills a program of another architecture than the machine's, and refuses
every call of the x32 ABI. It is written out here because not every machine has libseccomp. The
numbers are those of the Linux tables ``syscall_64.tbl`` and ``asm-generic/unistd.h``, which never
change.

What is covered: sockets, other processes' memory, keys, mounts and namespaces, kernel interfaces
with a history of holes (bpf, io_uring, userfaultfd, perf), objects that outlive a process (System V
memory and queues, memfd), and leaving the process group, so that the whole group can be killed.

What is not covered: files. Namespaces or file modes decide which files can be opened.

`seal` is an allow list for an interpreter that has everything it needs in memory. It may compute,
wait, allocate memory, and read and write descriptors that it already has; anything else fails with
EPERM: it opens no file, makes no process and no thread, and signals nobody. A process installs it
on itself, on top of `program`.
"""

import os
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from protocols.errors import DependencyError

DENIED: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "fanotify_init": (300, 262),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "personality": (135, 92),
    "vhangup": (153, 58),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "setpriority": (141, 140),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "uselib": (134, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
}
"""Call -> its number on x86-64 and on aarch64; None if the architecture has no such call."""

SEALED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "readv": (19, 65),
    "write": (1, 64),
    "writev": (20, 66),
    "close": (3, 57),
    "lseek": (8, 62),
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "brk": (12, 214),
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "mprotect": (10, 226),
    "madvise": (28, 233),
    "futex": (202, 98),
    "sched_yield": (24, 124),
    "getrandom": (318, 278),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    "getrusage": (98, 165),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "restart_syscall": (219, 128),
    "getitimer": (36, 102),
    "setitimer": (38, 103),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "getpid": (39, 172),
    "gettid": (186, 178),
}
"""The calls of a sealed process, as in `DENIED`; besides them it may exit."""

_EXITS: dict[str, tuple[int | None, int | None]] = {"exit": (60, 93), "exit_group": (231, 94)}

_CLONE = (56, 220)
_CLONE3 = 435
_NEW_NAMESPACE = 0x7E02_0080
"""``CLONE_NEW*``, including the time namespace."""

_X32 = 0x4000_0000
_EPERM, _ENOSYS = 1, 38
_ALLOW, _KILL, _ERROR = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in ``struct seccomp_data``, of the low word on a little-endian machine."""

_KILLED_STATUS = 128 + 9
_NO_NEW_PRIVS, _SET_SECCOMP, _MODE_FILTER = 38, 22, 2


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The properties of a machine that the filter needs."""

    audit: int
    column: int
    """Column in `DENIED`."""


_MACHINES = {
    "x86_64": Architecture(audit=0xC000_003E, column=0),
    "aarch64": Architecture(audit=0xC000_00B7, column=1),
}


def program(machine: str = "") -> bytes:
    """Return the filter for ``machine``, by default this one, as ``struct sock_filter`` in a row.

    Raises DependencyError if the call numbers of the machine are unknown.
    """
    return _packed(_instructions(_architecture(machine)))


def seal(machine: str = "") -> bytes:
    """Return the allow list for ``machine``, as `program` does. Raises DependencyError.

    A process that exits with the status that bubblewrap gives one that was killed dies of SIGSYS
    instead: only others can make it look killed.
    """
    architecture = _architecture(machine)
    allowed = _numbers(SEALED, architecture)
    first_exit, second_exit = _numbers(_EXITS, architecture)
    last = len(allowed) + 5
    return _packed(
        [
            *_only_of(architecture),
            (_AT_LEAST, len(allowed) + 2, 0, _X32),
            *((_EQUAL, last - index, 0, number) for index, number in enumerate(allowed)),
            (_EQUAL, 2, 0, first_exit),
            (_EQUAL, 1, 0, second_exit),
            (_RETURN, 0, 0, _ERROR | _EPERM),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_AND, 0, 0, 0xFF),
            (_EQUAL, 1, 0, _KILLED_STATUS),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _KILL),
        ]
    )


def _architecture(machine: str) -> Architecture:
    machine = machine or os.uname().machine
    if machine not in _MACHINES:
        raise DependencyError(
            f"a seccomp filter needs an x86_64 or aarch64 machine, but this is {machine}; "
            "set the sandbox to 'limits' to run without a filter"
        )
    return _MACHINES[machine]


def _numbers(
    calls: Mapping[str, tuple[int | None, int | None]], architecture: Architecture
) -> list[int]:
    numbers = (each[architecture.column] for each in calls.values())
    return [number for number in numbers if number is not None]


def _packed(instructions: Iterable[tuple[int, int, int, int]]) -> bytes:
    return b"".join(struct.pack("<HBBI", *each) for each in instructions)


def _only_of(architecture: Architecture) -> list[tuple[int, int, int, int]]:
    """Return instructions that kill a program of another architecture, and load the number."""
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]


def _instructions(architecture: Architecture) -> list[tuple[int, int, int, int]]:
    denied = _numbers(DENIED, architecture)
    tests = len(denied)
    head = [
        *_only_of(architecture),
        (_AT_LEAST, tests + 5, 0, _X32),
    ]
    body = [(_EQUAL, tests + 4 - index, 0, number) for index, number in enumerate(denied)]
    tail = [
        (_EQUAL, 5, 0, _CLONE3),
        (_EQUAL, 0, 2, _CLONE[architecture.column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 1, 0, _NEW_NAMESPACE),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERROR | _EPERM),
        (_RETURN, 0, 0, _ERROR | _ENOSYS),
    ]
    return head + body + tail


_LAUNCHER = f"""
import ctypes, os, sys
filters = bytes.fromhex(sys.argv[1])
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filters", ctypes.c_char_p))
program = Program(len(filters) // 8, filters)
prctl = ctypes.CDLL(None, use_errno=True).prctl
prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
if prctl({_NO_NEW_PRIVS}, 1, 0, 0, 0) or prctl(
    {_SET_SECCOMP}, {_MODE_FILTER}, ctypes.addressof(program), 0, 0
):
    sys.exit("seccomp: " + os.strerror(ctypes.get_errno()))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""The filter is installed by a program of its own, so that the filter can forbid the first process
to lead a session. It needs only the standard library."""


def confined(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command that runs ``argv`` (absolute, no search path) under the filter.

    Raises DependencyError, as ``program`` does.
    """
    return (sys.executable, "-I", "-S", "-c", _LAUNCHER, program().hex(), *argv)
