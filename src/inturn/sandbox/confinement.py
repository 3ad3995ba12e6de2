"""The box that parsers of foreign files run in: limits of the process, Landlock for files, seccomp for system calls.

A child calls `enter` once, before its first thread and before it reads anything a customer sent. Nothing here can be
undone from inside, and whatever the kernel does not offer is said in the `Confinement`, never passed over.
"""

import ctypes
import os
import resource
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inturn.sandbox import landlock, layers, privileges, seccomp
from inturn.sandbox.allowed_paths import SandboxError, needed_paths, ocr_folders, resolved_paths

__all__ = [
    "Confinement",
    "SandboxError",
    "SandboxLimits",
    "child_environment",
    "enter_sandbox",
    "needed_paths",
    "ocr_folders",
]

MEGABYTE = 1 << 20
CPU_CLOCK_ID = -8
"""The clock that RLIMIT_CPU is held against: it counts ticks and, on a busy machine, runs ahead of `process_time`."""
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38

_LIBC = ctypes.CDLL(None, use_errno=True)
CHILD_ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "2",  # each arena reserves 64 MB of addresses, and addresses are what RLIMIT_AS counts
    # What glibc learns with the first large document. Until then it gives memory back after every page and asks for it
    # again: four times the page faults, 20 ms for each new child.
    "MALLOC_MMAP_THRESHOLD_": str(32 * MEGABYTE),
    "MALLOC_TRIM_THRESHOLD_": str(64 * MEGABYTE),
    "RAYON_NUM_THREADS": "1",
    "TOKIO_WORKER_THREADS": "1",
    "OMP_NUM_THREADS": "1",  # ONNX Runtime and Tesseract
    "OMP_THREAD_LIMIT": "1",
    "OPJ_NUM_THREADS": "0",  # OpenJPEG: decode in the calling thread
    "LANG": "C.UTF-8",
    "PATH": "/nonexistent",
}
"""What a child is started with instead of its parent's environment: one thread each, few arenas, and no secrets."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one child may use. The worker enforces `wall`, `documents` and `scratch`, the kernel the rest."""

    memory_bytes: int = 1024 * MEGABYTE
    cpu_seconds: int = 60
    wall_seconds: float = 120.0
    file_bytes: int = 64 * MEGABYTE
    open_files: int = 64
    documents_per_child: int = 20
    scratch_bytes: int = 256 * MEGABYTE
    """What may lie in its folder at a time."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """Which layers hold in this process, and what is missing of them, in words."""

    limits: SandboxLimits
    landlock_version: int
    """The version of Landlock's interface in force; 0 if the kernel has none."""
    files: bool
    tcp: bool
    signals: bool
    """Whether other processes are out of reach of its signals."""
    seccomp: bool
    uid: int | None
    """The user id of its own that it got because the worker is root; None: the worker's."""
    closed_path: str | None = None
    """What only root may read and the child has to: for its sake one capability stays, CAP_DAC_READ_SEARCH."""
    missing: tuple[str, ...] = ()

    def renew_cpu_limit(self) -> None:
        """Give the next document its own seconds: the kernel counts a process's whole life, not a document."""
        renew_cpu_limit(self.limits)

    def __str__(self) -> str:
        held = [f"Landlock {self.landlock_version}"] if self.files else []
        held += ["seccomp"] if self.seccomp else []
        held += [] if self.uid is None else ["a user of its own"]
        words = ", ".join(["limits", *held])
        if self.closed_path is not None:
            words += f" (with CAP_DAC_READ_SEARCH, for {self.closed_path} is closed to others)"
        return f"{words}; missing: {'; '.join(self.missing)}" if self.missing else words


def enter_sandbox(
    limits: SandboxLimits,
    readable: Sequence[Path],
    writable: Path,
    *,
    protected: Sequence[Path] = (),
    strict: bool = False,
) -> Confinement:
    """Confine this process for good: it reads below `readable`, writes below `writable` and has no network.

    It starts no program and reaches no other process. If it is root, it becomes a user of its own. It raises if it can
    still open one of the `protected`; with `insist` also instead of going on without Landlock or seccomp.
    """
    if _running_threads() > 1:
        raise SandboxError("the sandbox must be entered before the first thread: Landlock holds for one thread only")
    parent, was_root = os.getppid(), privileges.is_root()
    closed = privileges.path_closed_to_others(tuple(readable), writable.parent) if was_root else None
    is_user = privileges.drop(writable, may_search=closed is not None)
    # A new user clears both.
    die_with_parent(parent)
    _prctl(PR_SET_DUMPABLE, 0)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    files, calls = landlock.restrict(readable, writable), seccomp.restrict()
    lacking = layers.missing_layers(files.version, seccomp=calls, user=is_user)
    missing = tuple(layer.describe(is_root=was_root, may_search=closed is not None) for layer in lacking)
    if strict and missing:
        raise SandboxError(f"the sandbox was insisted on, but this machine lacks {'; '.join(missing)}")
    _require_closed(protected if files.files else ())
    # Last, so that a tight limit cannot break the steps above.
    _set_rlimits(limits)
    user = os.getuid() if was_root and is_user else None
    return Confinement(limits, files.version, files.files, files.tcp, files.signals, calls, user, closed, missing)


def die_with_parent(parent: int | None = None) -> None:
    """Let the kernel kill this process when the thread that started it ends; `parent` was its process before."""
    parent = parent or os.getppid()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SandboxError("the parent process ended while its child was starting")


def child_environment(library: Path) -> dict[str, str]:
    """A child's whole environment; `library` is the folder that `parser.prepare` filled."""
    reported = {**CHILD_ENVIRONMENT, "TMPDIR": str(library)}
    if folders := ocr_folders():
        reported["TESSDATA_PREFIX"] = str(folders[0])
    return reported


def _require_closed(protected: Sequence[Path]) -> None:
    """Try what must not work, from inside: links and mounts may lead where no path says so."""
    for place in resolved_paths(protected):
        try:
            os.close(os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError:
            continue
        raise SandboxError(f"the sandbox does not keep {place} closed: move it to a folder of its own")


def _running_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _set_rlimits(limits: SandboxLimits) -> None:
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_AS, limits.memory_bytes),
    ):
        hard = resource.getrlimit(kind)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))
    # A write beyond the limit then fails with EFBIG instead of ending the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    renew_cpu_limit(limits)


def renew_cpu_limit(limits: SandboxLimits) -> None:
    """Set the soft limit anew, at which SIGXCPU ends the process; the hard one stays, so that the next can be set."""
    soft = int(time.clock_gettime(CPU_CLOCK_ID)) + 1 + limits.cpu_seconds
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise SandboxError(f"prctl({option}) failed: {os.strerror(ctypes.get_errno())}")
