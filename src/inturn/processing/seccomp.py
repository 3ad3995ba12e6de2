"""Seccomp: the system calls that a parser never needs fail, the ones that reach the network first of all.

A list of refusals, not of permissions: a new libc or a new kreuzberg must not break on a call that nobody thought of.
"""

import ctypes
import errno
import os
import platform
from dataclasses import dataclass

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
AT_NUMBER, AT_ARCHITECTURE, AT_FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
CLONE_THREAD = 0x00010000
X32 = 0x40000000


@dataclass(frozen=True, slots=True)
class Machine:
    """The numbers of one architecture's system calls."""

    audit: int
    network: tuple[int, ...]
    refused: tuple[int, ...]
    forks: tuple[int, ...]
    clone: int


# Calls added since Linux 5 have one number everywhere: io_uring, the new mount calls, pidfd_getfd, process_madvise.
CLONE3 = 435
EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 438, 440, 442)
MACHINES = {
    "x86_64": Machine(
        audit=0xC000003E,
        network=(41,),  # socket
        refused=(
            *(101, 310, 311),  # ptrace, process_vm_readv, process_vm_writev
            *(246, 320, 175, 313, 176, 169),  # kexec_load, kexec_file_load, (f)init_module, delete_module, reboot
            *(165, 166, 155, 161, 272, 308),  # mount, umount2, pivot_root, chroot, unshare, setns
            *(248, 249, 250),  # add_key, request_key, keyctl
            *(321, 298, 323, 304),  # bpf, perf_event_open, userfaultfd, open_by_handle_at
            *(167, 168, 163, 103),  # swapon, swapoff, acct, syslog
        ),
        forks=(57, 58),  # fork, vfork
        clone=56,
    ),
    "aarch64": Machine(
        audit=0xC00000B7,
        network=(198,),
        refused=(
            *(117, 270, 271),
            *(104, 294, 105, 273, 106, 142),
            *(40, 39, 41, 51, 97, 268),
            *(217, 218, 219),
            *(280, 241, 282, 265),
            *(224, 225, 89, 116),
        ),
        forks=(),
        clone=220,
    ),
}


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction)))


def restrict(*, programs: bool) -> tuple[str, ...]:
    """Install the filter for this process and all it starts; returns what is missing, nothing if it holds."""
    machine = MACHINES.get(platform.machine())
    if machine is None:
        return (f"seccomp: no list of system calls for {platform.machine()}; UDP is open to the sandbox",)
    steps = _filter(machine, programs=programs)
    program = _Program(len(steps), (_Instruction * len(steps))(*(_Instruction(*step) for step in steps)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        return (f"seccomp: {os.strerror(ctypes.get_errno())}; UDP is open to the sandbox",)
    return ()


def _filter(machine: Machine, *, programs: bool) -> list[tuple[int, int, int, int]]:
    """The program: every refusal is a test followed by its answer, so that no jump has to be counted."""
    steps = [
        (LOAD, 0, 0, AT_ARCHITECTURE),
        # A 32-bit call has other numbers: none gets through.
        (JUMP_EQUAL, 1, 0, machine.audit),
        (RETURN, 0, 0, ERRNO | errno.EPERM),
        (LOAD, 0, 0, AT_NUMBER),
        (JUMP_AT_LEAST, 0, 1, X32),
        (RETURN, 0, 0, ERRNO | errno.EPERM),
    ]
    answers = dict.fromkeys(machine.network, errno.EACCES)
    answers |= dict.fromkeys((*machine.refused, *EVERYWHERE), errno.EPERM)
    if not programs:
        answers |= dict.fromkeys(machine.forks, errno.EPERM)
        # Its flags lie in memory, where a filter cannot look; libc then falls back to clone.
        answers[CLONE3] = errno.ENOSYS
    for number, answer in answers.items():
        steps += [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | answer)]
    if not programs:
        steps += [
            (JUMP_EQUAL, 0, 3, machine.clone),
            (LOAD, 0, 0, AT_FIRST_ARGUMENT),
            (JUMP_BITS, 1, 0, CLONE_THREAD),
            (RETURN, 0, 0, ERRNO | errno.EPERM),
        ]
    return [*steps, (RETURN, 0, 0, ALLOW)]
