"""Enter the sandbox for parsers: resource limits, Landlock for files, seccomp for system calls.

A child calls `enter_sandbox` once, before its first thread and before it reads anything that a customer sent. It cannot
be undone. The `Confinement` lists layers that the kernel lacks.
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
"""The clock that RLIMIT_CPU uses. It counts ticks and, on a busy machine, runs ahead of `process_time`."""
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38

_LIBC = ctypes.CDLL(None, use_errno=True)
CHILD_ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "2",  # each arena reserves 64 MB of addresses, which RLIMIT_AS counts
    # The values that glibc adapts to with the first large document. Until then it returns memory after every page and
    # allocates it again: four times the page faults, 20 ms for each new child.
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
"""A child's environment, instead of its parent's: one thread per library, few arenas, no secrets."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of one child. The worker enforces time, documents and disk space in all, the kernel the rest."""

    memory_bytes: int = 1024 * MEGABYTE
    cpu_seconds: int = 60
    wall_seconds: float = 120.0
    file_bytes: int = 64 * MEGABYTE
    open_files: int = 64
    documents_per_child: int = 20
    scratch_bytes: int = 256 * MEGABYTE
    """Bytes in its folder at a time."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """The layers that are active in this process, and a description of missing ones."""

    limits: SandboxLimits
    landlock_version: int
    """The active version of Landlock's ABI; 0 if the kernel has none."""
    files: bool
    tcp: bool
    signals: bool
    """Whether it cannot send signals to other processes."""
    seccomp: bool
    uid: int | None
    """Its own user id, if the worker is root; None: the worker's."""
    closed_path: str | None = None
    """A path that only root may read and the child must: because of it the child keeps CAP_DAC_READ_SEARCH."""
    missing: tuple[str, ...] = ()

    def renew_cpu_limit(self) -> None:
        """Allow the next document its full CPU time: the kernel counts that of the whole process."""
        renew_cpu_limit(self.limits)

    def __str__(self) -> str:
        active = [f"Landlock {self.landlock_version}"] if self.files else []
        active += ["seccomp"] if self.seccomp else []
        active += [] if self.uid is None else ["a user of its own"]
        text = ", ".join(["limits", *active])
        if self.closed_path is not None:
            text += f" (with CAP_DAC_READ_SEARCH, because only root may read {self.closed_path})"
        return f"{text}; missing: {'; '.join(self.missing)}" if self.missing else text


def enter_sandbox(
    limits: SandboxLimits,
    readable: Sequence[Path],
    writable: Path,
    *,
    protected: Sequence[Path] = (),
    strict: bool = False,
) -> Confinement:
    """Confine this process for good: it reads below `readable`, writes below `writable` and has no network.

    It can start no program and reach no other process. A root process becomes a user of its own. Raise SandboxError if
    one of the `protected` paths can still be opened; with `strict` also if Landlock or seccomp is missing.
    """
    if _running_threads() > 1:
        raise SandboxError(
            "the sandbox must be entered before the first thread is started: Landlock confines one thread only"
        )
    parent, was_root = os.getppid(), privileges.is_root()
    closed = privileges.path_closed_to_others(tuple(readable), writable.parent) if was_root else None
    is_user = privileges.drop(writable, may_search=closed is not None)
    # A change of user has cleared both.
    die_with_parent(parent)
    _prctl(PR_SET_DUMPABLE, 0)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    files, calls = landlock.restrict(readable, writable), seccomp.restrict()
    lacking = layers.missing_layers(files.version, seccomp=calls, user=is_user)
    missing = tuple(layer.describe(is_root=was_root, may_search=closed is not None) for layer in lacking)
    if strict and missing:
        raise SandboxError(f"the sandbox is required, but this machine lacks {'; '.join(missing)}")
    _require_closed(protected if files.files else ())
    # Last, so that a tight limit cannot break the steps above.
    _set_rlimits(limits)
    user = os.getuid() if was_root and is_user else None
    return Confinement(limits, files.version, files.files, files.tcp, files.signals, calls, user, closed, missing)


def die_with_parent(parent: int | None = None) -> None:
    """Let the kernel kill this process when its parent thread ends; `parent` is the parent's process id."""
    parent = parent or os.getppid()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SandboxError("the parent process ended while its child was starting")


def child_environment(library: Path) -> dict[str, str]:
    """Return a child's whole environment; `library` is the folder that `parser.prepare` has filled."""
    environment = {**CHILD_ENVIRONMENT, "TMPDIR": str(library)}
    if folders := ocr_folders():
        environment["TESSDATA_PREFIX"] = str(folders[0])
    return environment


def _require_closed(protected: Sequence[Path]) -> None:
    """Try to open the protected paths from inside: links and mounts may lead to them by other names."""
    for path in resolved_paths(protected):
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError:
            continue
        raise SandboxError(f"the sandbox does not keep {path} closed: move it to a folder of its own")


def _running_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _set_rlimits(limits: SandboxLimits) -> None:
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_AS, limits.memory_bytes),
    ):
        hard = resource.getrlimit(kind)[1]
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (allowed, allowed))
    # A write beyond the limit then fails with EFBIG instead of ending the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    renew_cpu_limit(limits)


def renew_cpu_limit(limits: SandboxLimits) -> None:
    """Raise the soft limit, at which SIGXCPU ends the process; the hard limit stays, so it can be raised again."""
    soft = int(time.clock_gettime(CPU_CLOCK_ID)) + 1 + limits.cpu_seconds
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise SandboxError(f"prctl({option}) failed: {os.strerror(ctypes.get_errno())}")
