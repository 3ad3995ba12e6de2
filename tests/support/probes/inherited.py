"""What came along: descriptors, the environment, privileges."""

import ctypes
import errno
import fcntl
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from .registry import (
    LIBC,
    Targets,
    document_of,
    probe,
    require_success,
)

ALLOWED_VARIABLES = {
    *("MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "RAYON_NUM_THREADS"),
    *("TOKIO_WORKER_THREADS", "OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPJ_NUM_THREADS", "LANG", "PATH", "TMPDIR"),
    *("TESSDATA_PREFIX", "PYTHONPATH", "LC_CTYPE"),
    "LD_LIBRARY_PATH",  # set by kreuzberg itself
}


DESCRIPTOR_KINDS: dict[str, Callable[[int], bool]] = {
    "file": stat.S_ISREG,
    "folder": stat.S_ISDIR,
    "pipe": stat.S_ISFIFO,
    "socket": stat.S_ISSOCK,
    "device": stat.S_ISCHR,
}


class Descriptor(NamedTuple):
    number: int
    mode: int
    kind: str


def descriptors() -> Iterator[Descriptor]:
    """All that are open."""
    for number in range(1024):
        try:
            mode, flags = os.fstat(number).st_mode, fcntl.fcntl(number, fcntl.F_GETFL)
        except OSError:
            continue
        kind = next((name for name, test in DESCRIPTOR_KINDS.items() if test(mode)), "other")
        yield Descriptor(number, flags & os.O_ACCMODE, kind)


@probe
def inherited_descriptors(targets: Targets) -> None:
    """Besides null, the pipe it prints into, its one document and its own channel there is nothing."""
    standard: list[Descriptor] = []
    others: list[Descriptor] = []
    for item in descriptors():
        (standard if item.number <= 2 else others).append(item)
    kinds = sorted(item.kind for item in others if item.number != document_of(targets))
    is_one_pipe = os.fstat(1).st_ino == os.fstat(2).st_ino  # the worker's own two are apart here
    if kinds == ["socket"] and [item.kind for item in standard] == ["device", "pipe", "pipe"] and is_one_pipe:
        raise PermissionError(errno.EACCES, "nothing")


@probe
def inherited_environment(_: Targets) -> None:
    if unknown := set(os.environ) - ALLOWED_VARIABLES:
        raise OSError(0, f"it has {unknown}")
    raise PermissionError(errno.EACCES, "nothing")


@probe
def working_directory_imports(targets: Targets) -> None:
    """Whether a module could be loaded from the queue's folder, or from wherever a relative entry leads."""
    entries = [Path(entry) for entry in sys.path]
    if all(entry.is_absolute() and entry != Path(targets["folder"]) for entry in entries):
        raise PermissionError(errno.EACCES, "nothing")


@probe
def be_root(_: Targets) -> None:
    if 0 not in (*os.getresuid(), *os.getresgid(), *os.getgroups()):
        raise PermissionError(errno.EACCES, "no root")


@probe
def become_root(_: Targets) -> None:
    os.setresuid(0, 0, 0)


@probe
def gain_privileges(_: Targets) -> None:
    if LIBC.prctl(39, 0, 0, 0, 0) == 1:  # PR_GET_NO_NEW_PRIVS
        raise PermissionError(errno.EACCES, "none")


@probe
def write_where_root_may(_: Targets) -> None:
    """CAP_DAC_OVERRIDE and all others but CAP_DAC_READ_SEARCH, as the kernel counts them."""
    header, sets = struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    require_success(LIBC.capget(header, sets))
    low_effective, low_permitted, _, high_effective, high_permitted, _ = struct.unpack("6I", sets.raw)
    if not (low_effective | low_permitted) & ~(1 << 2) and not high_effective | high_permitted:
        raise PermissionError(errno.EACCES, "none")


def document_descriptor() -> int:
    """The one plain file that is open for reading; -1 if there is none."""
    plain = (item.number for item in descriptors() if item.kind == "file" and item.mode == os.O_RDONLY)
    return next(plain, -1)
