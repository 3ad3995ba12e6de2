"""The filter of system calls, played instruction by instruction for both architectures, and its numbers."""

import errno
import re
from pathlib import Path

import pytest

from inturn.sandbox import seccomp, syscalls
from inturn.sandbox.syscalls import AARCH64, AUDIT_ARCHITECTURE, X86_64, Call

OWN = 4_321
HEADERS = {
    X86_64: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    AARCH64: Path("/usr/include/asm-generic/unistd.h"),
}
CALLS = {
    call.name: call
    for call in (
        *(*syscalls.NETWORK, *syscalls.REFUSED, *syscalls.SIGNALS, *syscalls.SCHEDULING),
        *(syscalls.CLONE, syscalls.CLONE3, syscalls.FCNTL, syscalls.IOCTL, syscalls.IOPRIO_SET, syscalls.PRCTL),
        *(syscalls.PRLIMIT, syscalls.SENDTO, syscalls.SETPRIORITY, syscalls.SOCKETPAIR),
    )
}
MINUS_ONE = 0xFFFFFFFFFFFFFFFF


def play(machine: str, number: int, *arguments: int, audit: int | None = None) -> int:
    """The errno that a call gets, 0 if it is let through."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = {0: number, 4: AUDIT_ARCHITECTURE[machine] if audit is None else audit}
    for position, value in enumerate(padded):
        data[16 + 8 * position], data[20 + 8 * position] = value & 0xFFFFFFFF, value >> 32
    steps, at, held = seccomp.build_filter(machine, OWN), 0, 0
    while True:
        code, yes, no, constant = steps[at]
        at += 1
        if code == seccomp.RETURN:
            return 0 if constant == seccomp.ALLOW else constant & 0xFFFF
        if code == seccomp.LOAD:
            held = data[constant]
        elif code == seccomp.AND:
            held &= constant
        else:
            holds = {
                seccomp.JUMP_EQUAL: held == constant,
                seccomp.JUMP_AT_LEAST: held >= constant,
                seccomp.JUMP_BITS: bool(held & constant),
            }[code]
            at += yes if holds else no


@pytest.fixture(params=[X86_64, AARCH64])
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def numbered(machine: str, call: Call) -> int:
    number = call.number(machine)
    assert number is not None
    return number


def test_every_listed_call_is_refused_and_no_other(machine: str) -> None:
    listed = {call.number(machine): call.name for call in CALLS.values()}
    always = {call.number(machine) for call in (*syscalls.NETWORK, *syscalls.REFUSED, syscalls.CLONE3)} - {None}
    for number in range(480):
        assert (play(machine, number) != 0) >= (number in always), listed.get(number, number)
        if number not in listed:
            assert play(machine, number) == 0, number


@pytest.mark.parametrize(
    ("name", "arguments", "is_allowed"),
    [
        ("kill", (OWN, 6), True),
        ("kill", (OWN + 1, 0), False),
        ("kill", (0, 9), False),
        ("kill", (MINUS_ONE, 9), False),
        ("kill", (1, 0), False),
        ("tgkill", (OWN, OWN + 7, 6), True),
        ("tgkill", (1, 1, 9), False),
        ("tkill", (OWN, 6), True),
        ("tkill", (1, 9), False),
        ("rt_sigqueueinfo", (1, 9), False),
        ("prlimit64", (0, 7), True),
        ("prlimit64", (OWN, 7), True),
        ("prlimit64", (1, 7), False),
        ("sched_setaffinity", (0,), True),
        ("sched_setaffinity", (1,), False),
        ("setpriority", (0, 0, 5), True),
        ("setpriority", (0, 1, 5), False),
        ("setpriority", (1, 0, 5), False),
        ("setpriority", (2, 0, 5), False),
        ("ioprio_set", (1, 0, 5), True),
        ("ioprio_set", (3, 0, 5), False),
        ("socketpair", (1, 1), True),
        ("socketpair", (1, 1 | 0o2000000 | 0o4000), True),
        ("socketpair", (1, 2), False),
        ("socketpair", (1, 5), False),
        ("socketpair", (2, 1), False),
        ("sendto", (3, 4096, 1, 0, 0, 0), True),
        ("sendto", (3, 4096, 1, 0, 4096, 16), False),
        ("sendto", (3, 4096, 1, 0, 1 << 32, 16), False),
        ("clone", (0x3D0F00,), True),
        ("clone", (0x11,), False),
        ("clone", (0x10000011,), False),
        ("clone", (0x10010000,), False),
        ("fcntl", (3, 1), True),
        ("fcntl", (3, 8, 1), False),
        ("fcntl", (3, 10, 9), False),
        ("fcntl", (3, 15), False),
        ("ioctl", (0, 0x5401), True),
        ("ioctl", (0, 0x5412), False),
        ("ioctl", (3, 0x40086602), False),
        ("ioctl", (3, 0x1_0000_5412), False),
        ("prctl", (15,), True),
        ("prctl", (1, 0), False),
        ("prctl", (4, 1), False),
    ],
)
def test_calls_with_arguments(machine: str, name: str, arguments: tuple[int, ...], *, is_allowed: bool) -> None:
    assert (play(machine, numbered(machine, CALLS[name]), *arguments) == 0) == is_allowed


def test_calls_of_another_architecture_are_refused(machine: str) -> None:
    assert play(machine, 0, audit=0x40000003) == errno.EPERM
    assert play(machine, 0x40000000 | 41) == errno.EPERM
    assert play(machine, numbered(machine, syscalls.CLONE3)) == errno.ENOSYS, "libc falls back to clone then"


def test_every_number_is_the_kernels_own(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers are not installed")
    text = HEADERS[machine].read_text(encoding="utf-8")
    theirs = {name: int(number) for name, number in re.findall(r"#define\s+__NR(?:3264)?_(\w+)\s+(\d+)", text)}
    ours = {name: call.number(machine) for name, call in CALLS.items()}
    assert {name: number for name, number in ours.items() if name in theirs} == {
        name: theirs[name] for name in ours if name in theirs
    }
    newer = {name for name in ours if name not in theirs and ours[name] is not None}
    assert all((ours[name] or 0) > 440 for name in newer), newer


def test_jumps_stay_within_a_byte(machine: str) -> None:
    assert all(0 <= yes < 256 and 0 <= no < 256 for _, yes, no, _ in seccomp.build_filter(machine, OWN))
