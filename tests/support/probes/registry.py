"""How a probe is registered, and the system calls that Python has no name for."""

import ctypes
import errno
import os
from collections.abc import Callable
from typing import Any

REFUSED_ERRNOS = (errno.EPERM, errno.EACCES, errno.EXDEV)
"""The last is Landlock's answer to a link or a move out of a folder."""
MACHINE_COLUMN = 0 if os.uname().machine == "x86_64" else 1
SYSCALL_NUMBERS = {  # on x86_64 and aarch64
    "chown_at": (260, 54),
    "fchmodat2": (452, 452),
    "setxattrat": (463, 463),
    "utimensat": (280, 88),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "kcmp": (312, 272),
    "unshare": (272, 97),
    "setns": (308, 268),
    "clone": (56, 220),
    "mount": (165, 40),
    "fsopen": (430, 430),
    "chroot": (161, 51),
    "io_uring_setup": (425, 425),
    "add_key": (248, 217),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "shmget": (29, 194),
    "mq_open": (240, 180),
    "open_by_handle_at": (304, 265),
    "sched_setaffinity": (203, 122),
}
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def call(name: str, *arguments: Any) -> int:
    converted = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result = int(LIBC.syscall(ctypes.c_long(SYSCALL_NUMBERS[name][MACHINE_COLUMN]), *converted))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def require_success(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "libc")


Targets = dict[str, Any]
Probe = Callable[[Targets], Any]
PROBES: dict[str, Probe] = {}


def probe(function: Probe) -> Probe:
    PROBES[function.__name__] = function
    return function


def document_of(targets: Targets) -> int:
    """The descriptor of the document at hand: it is read-only, but its attributes could be changed by it."""
    return int(targets["document"])
