"""The box that parsers of foreign files run in: limits of the process, Landlock for files, seccomp for system calls.

A child calls `enter` once, before its first thread and before it reads anything a customer sent. Nothing here can be
undone from inside, and whatever the kernel does not offer is said in the `Confinement`, never passed over.
"""

import ctypes
import os
import resource
import signal
import sys
import sysconfig
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from inturn.errors import InturnError

from . import landlock, seccomp

MEGABYTE = 1 << 20
CPU_CLOCK = -8
"""The clock that RLIMIT_CPU is held against: it counts ticks and, on a busy machine, runs ahead of `process_time`."""
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38

ENVIRONMENT = {
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


class SandboxError(InturnError):
    """The sandbox cannot be entered, or does not hold what was insisted on."""

    code = "sandbox"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one child may use. The worker enforces `wall`, `documents` and `scratch`, the kernel the rest."""

    memory: int = 1024 * MEGABYTE
    cpu: int = 60
    wall: float = 120.0
    file_size: int = 64 * MEGABYTE
    open_files: int = 64
    documents: int = 20
    scratch: int = 256 * MEGABYTE
    """What may lie in its folder at a time."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """Which layers hold in this process, and what is missing of them, in words."""

    limits: Limits
    landlock: int
    """The version of Landlock's interface in force; 0 if the kernel has none."""
    files: bool
    tcp: bool
    signals: bool
    """Whether other processes are out of reach of its signals."""
    system_calls: bool
    missing: tuple[str, ...] = ()

    def renew(self) -> None:
        """Give the next document its own seconds: the kernel counts a process's whole life, not a document."""
        renew(self.limits)

    def __str__(self) -> str:
        held = [f"Landlock {self.landlock}"] if self.files else []
        held += ["seccomp"] if self.system_calls else []
        words = ", ".join(["limits", *held])
        return f"{words}; missing: {'; '.join(self.missing)}" if self.missing else words


def enter(
    limits: Limits, readable: Sequence[Path], writable: Path, *, insist: bool = False, programs: bool = False
) -> Confinement:
    """Confine this process for good: it reads below `readable`, writes below `writable` and has no network.

    With `insist` it raises instead of going on without Landlock or seccomp. With `programs` it may start the programs
    below `readable`, which live in the same box; without, it can neither start one nor fork.
    """
    if _running_threads() > 1:
        raise SandboxError("the sandbox must be entered before the first thread: Landlock holds for one thread only")
    die_with_parent()
    _prctl(PR_SET_DUMPABLE, 0)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    files = landlock.restrict(readable, writable, programs=programs)
    calls = seccomp.restrict(programs=programs)
    missing = (*files.missing, *calls)
    if insist and missing:
        raise SandboxError(f"the sandbox was insisted on, but this kernel lacks: {'; '.join(missing)}")
    # Last, so that a tight limit cannot break the steps above.
    _limit(limits)
    return Confinement(limits, files.version, files.files, files.tcp, files.signals, not calls, missing)


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread that started it ends."""
    parent = os.getppid()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SandboxError("the parent process ended while its child was starting")


def needed_paths() -> tuple[Path, ...]:
    """What the interpreter, Inturn and kreuzberg read once they run, as far as it is there on this machine."""
    places = sysconfig.get_paths()
    ours = Path(__file__).resolve().parents[2]
    wanted: list[Path] = [Path(places[key]) for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    wanted += [Path(sys.base_prefix, "lib"), ours]
    wanted += [Path("/lib"), Path("/lib64"), Path("/usr/lib"), Path("/usr/lib64"), Path("/usr/local/lib")]
    wanted += [Path("/etc/ld.so.cache"), Path("/etc/localtime"), Path("/usr/share/zoneinfo")]
    wanted += [Path("/dev/null"), Path("/dev/urandom"), Path("/dev/zero")]
    # Rust and glibc ask how many processors and how much memory there are.
    wanted += [Path("/proc/cpuinfo"), Path("/proc/meminfo"), Path("/sys/devices/system/cpu")]
    # The PDF library that `parser.prepare` unpacked, and nothing else below TMPDIR.
    wanted += [Path(os.environ.get("TMPDIR", "/nonexistent"), "kreuzberg-pdfium"), *ocr_folders()]
    return tuple(_without_nested(path.resolve() for path in wanted if path.exists()))


def environment(library: Path) -> dict[str, str]:
    """A child's whole environment; `library` is the folder that `parser.prepare` filled."""
    told = {**ENVIRONMENT, "TMPDIR": str(library)}
    if folders := ocr_folders():
        told["TESSDATA_PREFIX"] = str(folders[0])
    return told


def ocr_folders() -> list[Path]:
    """Where Tesseract's language data lies, if it is installed."""
    wanted = [Path("/usr/share/tessdata"), Path("/usr/local/share/tessdata")]
    wanted += Path("/usr/share/tesseract-ocr").glob("*/tessdata")
    named = os.environ.get("TESSDATA_PREFIX")
    if named:
        wanted = [Path(named), Path(named, "tessdata"), *wanted]
    return [folder for folder in wanted if any(folder.glob("*.traineddata"))]


def _without_nested(paths: Iterable[Path]) -> list[Path]:
    kept: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def _running_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _limit(limits: Limits) -> None:
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.file_size),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_AS, limits.memory),
    ):
        hard = resource.getrlimit(kind)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))
    # A write beyond the limit then fails with EFBIG instead of ending the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    renew(limits)


def renew(limits: Limits) -> None:
    """Set the soft limit anew, at which SIGXCPU ends the process; the hard one stays, so that the next can be set."""
    soft = int(time.clock_gettime(CPU_CLOCK)) + 1 + limits.cpu
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise SandboxError(f"prctl({option}) failed: {os.strerror(ctypes.get_errno())}")
