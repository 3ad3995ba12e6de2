"""Refuse system calls that reach outside a sandboxed child, with a seccomp filter; `syscalls` lists them.

Landlock restricts opening and creating files. This filter covers file attributes, signals, sockets other than TCP,
shared memory, namespaces and interfaces of the kernel.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from inturn.sandbox import syscalls
from inturn.sandbox.syscalls import Call

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOAD, AND, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_BITS, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16  # offsets in struct seccomp_data
X32_SYSCALL_BIT = 0x40000000

CLONE_THREAD = 0x00010000
CLONE_NAMESPACES = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""
AF_UNIX, SOCK_STREAM, SOCK_TYPE_MASK = 1, 1, 0xF
PRIO_PROCESS, IOPRIO_WHO_PROCESS = 0, 1
REFUSED_FCNTL_COMMANDS = (8, 10, 15)
"""F_SETOWN, F_SETSIG and F_SETOWN_EX would send any signal to any process of the same user."""
REFUSED_IOCTL_COMMANDS = (
    *(0x5412, 0x541C, 0x5410),  # TIOCSTI, TIOCLINUX, TIOCSPGRP: typing into the worker's terminal
    *(0x8901, 0x8902),  # FIOSETOWN, SIOCSPGRP
    *(0x40086602, 0x40046602, 0x401C5820, 0x40087602),  # FS_IOC_SETFLAGS, FS_IOC32_SETFLAGS, FSSETXATTR, SETVERSION
)
REFUSED_PRCTL_OPTIONS = (1, 4, 35, 36, 0x59616D61)
"""PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_MM, PR_SET_CHILD_SUBREAPER and PR_SET_PTRACER."""

SOCK_FILTER: Final = struct.Struct("=HBBI")
"""struct sock_filter."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True)

Instruction = tuple[int, int, int, int]
"""One instruction: code, steps to skip if it holds, steps to skip if not, constant."""
REFUSE: Final[Instruction] = (RETURN, 0, 0, ERRNO | errno.EPERM)


class Argument(NamedTuple):
    """The lower or upper half of a system call's argument, reduced to the bits of the mask."""

    position: int
    mask: int | None = None
    upper: bool = False

    def load(self) -> list[Instruction]:
        """Return the instructions that load it."""
        steps: list[Instruction] = [(LOAD, 0, 0, ARGUMENTS_OFFSET + 8 * self.position + 4 * self.upper)]
        return steps if self.mask is None else [*steps, (AND, 0, 0, self.mask)]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def restrict() -> bool:
    """Install the filter for this process; return False if the kernel or the architecture has none."""
    machine = platform.machine()
    if machine not in syscalls.AUDIT_ARCHITECTURE:
        return False
    steps = build_filter(machine, os.getpid())
    program = _Program(len(steps), b"".join(SOCK_FILTER.pack(*step) for step in steps))
    return int(_LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)) == 0


def build_filter(machine: str, pid: int) -> list[Instruction]:
    """Build the filter of one process: for each call a test of its number, then a block that always returns."""
    steps: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE_OFFSET),
        # A 32-bit call has other numbers: refuse all.
        (JUMP_EQUAL, 1, 0, syscalls.AUDIT_ARCHITECTURE[machine]),
        REFUSE,
        (LOAD, 0, 0, NUMBER_OFFSET),
        (JUMP_AT_LEAST, 0, 1, X32_SYSCALL_BIT),
        REFUSE,
    ]
    for call, block in _blocks(pid):
        number = call.number(machine)
        if number is not None:
            steps += [(JUMP_EQUAL, 0, len(block), number), *block]
    return [*steps, (RETURN, 0, 0, ALLOW)]


def _blocks(pid: int) -> Iterator[tuple[Call, list[Instruction]]]:
    for call in syscalls.NETWORK:
        yield call, [(RETURN, 0, 0, ERRNO | errno.EACCES)]
    for call in syscalls.REFUSED:
        yield call, [REFUSE]
    # Its flags are in memory, which a filter cannot read; libc then falls back to clone.
    yield syscalls.CLONE3, [(RETURN, 0, 0, ERRNO | errno.ENOSYS)]
    yield syscalls.CLONE, _threads_only()
    yield from _self_only_blocks(pid)
    stream = Argument(1, mask=SOCK_TYPE_MASK)
    yield syscalls.SOCKETPAIR, _allow_if((Argument(0), (AF_UNIX,)), (stream, (SOCK_STREAM,)))
    yield syscalls.SENDTO, _allow_if((Argument(4), (0,)), (Argument(4, upper=True), (0,)))
    yield syscalls.FCNTL, _allow_unless(Argument(1), REFUSED_FCNTL_COMMANDS)
    yield syscalls.IOCTL, _allow_unless(Argument(1), REFUSED_IOCTL_COMMANDS)
    yield syscalls.PRCTL, _allow_unless(Argument(0), REFUSED_PRCTL_OPTIONS)


def _self_only_blocks(pid: int) -> Iterator[tuple[Call, list[Instruction]]]:
    """Calls that a process may make on itself alone: `abort` needs a signal, a library its own affinity."""
    for call in syscalls.SIGNALS:
        yield call, _allow_if((Argument(0), (pid,)))
    for call in (*syscalls.SCHEDULING, syscalls.PRLIMIT):
        yield call, _allow_if((Argument(0), (0, pid)))
    yield syscalls.SETPRIORITY, _allow_if((Argument(0), (PRIO_PROCESS,)), (Argument(1), (0, pid)))
    yield syscalls.IOPRIO_SET, _allow_if((Argument(0), (IOPRIO_WHO_PROCESS,)), (Argument(1), (0, pid)))


def _threads_only() -> list[Instruction]:
    return [
        *Argument(0).load(),
        (JUMP_BITS, 1, 0, CLONE_THREAD),
        REFUSE,
        (JUMP_BITS, 0, 1, CLONE_NAMESPACES),
        REFUSE,
        (RETURN, 0, 0, ALLOW),
    ]


def _allow_if(*conditions: tuple[Argument, Sequence[int]]) -> list[Instruction]:
    """Allow a call if each argument has one of its values."""
    steps: list[Instruction] = []
    for argument, values in conditions:
        steps += argument.load()
        steps += [(JUMP_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
        steps.append(REFUSE)
    return [*steps, (RETURN, 0, 0, ALLOW)]


def _allow_unless(argument: Argument, values: Sequence[int]) -> list[Instruction]:
    """Allow a call unless the argument has one of these values."""
    steps = argument.load()
    for value in values:
        steps += [(JUMP_EQUAL, 0, 1, value), REFUSE]
    return [*steps, (RETURN, 0, 0, ALLOW)]
