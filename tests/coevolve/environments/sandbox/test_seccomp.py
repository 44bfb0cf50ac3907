"""What the filters answer to each system call, as the kernel reads them."""

import errno
import struct

import pytest

from coevolve.environments.sandbox.seccomp import DENIED, SEALED, program, seal

MACHINES = {"x86_64": (0, 0xC000_003E), "aarch64": (1, 0xC000_00B7)}
"""Column in the tables of calls, and the kernel's name of the architecture."""

KILL, ALLOW = "kill", "allow"
CLONE, CLONE3, EXIT = (56, 220), 435, (60, 93)
NEW_NAMESPACES = (0x80, 0x2_0000, 0x200_0000, 0x400_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000)
THREAD = 0x3D_0F00
"""The flags of a thread."""


def answer(filters: bytes, audit: int, number: int, argument: int = 0) -> str | int:
    """Return what classic BPF, as `linux/filter.h` defines it, returns for a call."""
    words = {0: number, 4: audit, 16: argument}
    instructions = list(struct.iter_unpack("<HBBI", filters))
    value = place = 0
    while True:
        code, if_true, if_false, k = instructions[place]
        place += 1
        match code:
            case 0x20:
                value = words[k]
            case 0x54:
                value &= k
            case 0x06:
                action, data = k & 0xFFFF_0000, k & 0xFFFF
                return {0x7FFF_0000: ALLOW, 0x8000_0000: KILL}.get(action) or data
            case _:
                holds = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[code]
                place += if_true if holds else if_false


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_denies_its_calls_and_every_way_to_a_namespace(machine: str) -> None:
    column, audit = MACHINES[machine]
    filters = program(machine)
    denied = {each[column] for each in DENIED.values()} - {None}
    clone = CLONE[column]
    for number in set(range(500)) - {clone, CLONE3}:
        assert answer(filters, audit, number) == (errno.EPERM if number in denied else ALLOW)
    assert answer(filters, audit, CLONE3) == errno.ENOSYS
    assert answer(filters, audit, clone, THREAD) == ALLOW
    for flag in NEW_NAMESPACES:
        assert answer(filters, audit, clone, THREAD | flag) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_a_sealed_process_has_the_calls_of_the_list_and_may_exit_but_not_as_if_killed(
    machine: str,
) -> None:
    column, audit = MACHINES[machine]
    allowed = {each[column] for each in SEALED.values()} - {None}
    exits = {EXIT[column], EXIT[column] + (171 if machine == "x86_64" else 1)}
    for number in range(500):
        told = answer(seal(machine), audit, number)
        assert told == (ALLOW if number in allowed | exits else errno.EPERM)
    for number in exits:
        assert answer(seal(machine), audit, number, 128 + 9) == KILL
        assert answer(seal(machine), audit, number, 256 + 128 + 9) == KILL
        assert answer(seal(machine), audit, number, 128) == ALLOW


@pytest.mark.parametrize("made", [program, seal])
def test_another_architecture_is_killed_and_the_calls_of_x32_are_not_made(made: object) -> None:
    for machine, (_, audit) in MACHINES.items():
        filters = program(machine) if made is program else seal(machine)
        for _, other in MACHINES.values():
            assert (answer(filters, other, 39) == KILL) == (other != audit)
        assert answer(filters, audit, 0x4000_0000 + 39) == errno.EPERM
