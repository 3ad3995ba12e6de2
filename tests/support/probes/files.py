"""Reading and changing files, and their attributes."""

import array
import ctypes
import errno
import fcntl
import os
from pathlib import Path

from .registry import (
    LIBC,
    PROBES,
    Targets,
    call,
    document_of,
    probe,
)


def _add_read_probe(name: str) -> None:
    def read(targets: Targets) -> None:
        with Path(targets[name]).open("rb") as file:
            file.read(16)

    PROBES[f"read_{name}"] = read


def _add_list_probe(name: str) -> None:
    PROBES[f"list_{name}"] = lambda targets: list(Path(targets[name]).iterdir())


for _name in ("store", "wal", "gate", "blob", "secret", "scratch_file"):
    _add_read_probe(_name)
for _name in ("folder", "blobs", "scratch"):
    _add_list_probe(_name)


@probe
def read_others_environment(targets: Targets) -> None:
    Path(f"/proc/{targets['worker']}/environ").read_bytes()


@probe
def list_processes(_: Targets) -> None:
    next(Path("/proc").iterdir())


@probe
def read_by_handle(_: Targets) -> None:
    call("open_by_handle_at", -1, ctypes.create_string_buffer(64), 0)


@probe
def watch_blobs(targets: Targets) -> None:
    file = LIBC.inotify_init1(0)
    if file < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    if LIBC.inotify_add_watch(file, os.fsencode(targets["blobs"]), 0x100) < 0:
        raise OSError(ctypes.get_errno(), "inotify_add_watch")


@probe
def watch_all_files(_: Targets) -> None:
    call("fanotify_init", 0x200, 0)  # FAN_REPORT_FID, which needs no capability


# -- changing files -------------------------------------------------------------------------------------------------


def _victim(targets: Targets, name: str) -> Path:
    return Path(targets["victims"], name)


@probe
def write_file(targets: Targets) -> None:
    _victim(targets, "write").open("r+b").write(b"x")


@probe
def make_file(targets: Targets) -> None:
    os.close(os.open(_victim(targets, "made"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))


@probe
def make_folder(targets: Targets) -> None:
    _victim(targets, "made folder").mkdir()


@probe
def remove_file(targets: Targets) -> None:
    _victim(targets, "remove").unlink()


@probe
def rename_file(targets: Targets) -> None:
    _victim(targets, "rename").rename(_victim(targets, "renamed"))


@probe
def move_into_scratch(targets: Targets) -> None:
    _victim(targets, "move").rename(Path(targets["own"], "moved"))


@probe
def link_file(targets: Targets) -> None:
    os.link(_victim(targets, "link"), _victim(targets, "linked"))


@probe
def link_into_scratch(targets: Targets) -> None:
    os.link(targets["store"], Path(targets["own"], "linked"))


@probe
def symlink_in_scratch(targets: Targets) -> None:
    Path(targets["own"], "symlink").symlink_to(targets["store"])


@probe
def make_fifo(targets: Targets) -> None:
    os.mkfifo(_victim(targets, "fifo"))


@probe
def truncate_file(targets: Targets) -> None:
    os.truncate(_victim(targets, "truncate"), 0)


@probe
def truncate_readable_file(targets: Targets) -> None:
    """What it may read, opened so that it is cut short: Landlock knows that since its version 3."""
    os.close(os.open(targets["readable"], os.O_RDONLY | os.O_TRUNC))


@probe
def write_shared_memory(_: Targets) -> None:
    path = Path(f"/dev/shm/inturn-probe-{os.getpid()}")  # noqa: S108 - it must not be written
    path.touch()
    path.unlink()


# -- attributes, which Landlock does not cover ----------------------------------------------------------------------


@probe
def chmod(targets: Targets) -> None:
    _victim(targets, "chmod").chmod(0o666)


@probe
def chmod_store(targets: Targets) -> None:
    os.chmod(targets["store"], 0o600)  # noqa: PTH101 - as a hostile parser would


@probe
def chmod_again(targets: Targets) -> None:
    call("fchmodat2", -100, os.fsencode(_victim(targets, "chmod2")), 0o666, 0)


@probe
def chown(targets: Targets) -> None:
    os.chown(_victim(targets, "chown"), -1, os.getgid())


@probe
def chown_at(targets: Targets) -> None:
    call("chown_at", -100, os.fsencode(_victim(targets, "chown2")), -1, os.getgid(), 0x100)


@probe
def utime(targets: Targets) -> None:
    os.utime(_victim(targets, "utime"), (1, 1))


@probe
def utime_now(targets: Targets) -> None:
    call("utimensat", -100, os.fsencode(_victim(targets, "utime2")), None, 0)


@probe
def set_attribute(targets: Targets) -> None:
    os.setxattr(_victim(targets, "xattr"), "user.inturn", b"x")


@probe
def set_attribute_at(targets: Targets) -> None:
    call("setxattrat", -100, os.fsencode(_victim(targets, "xattr2")), 0, b"user.inturn", None, 0)


@probe
def remove_attribute(targets: Targets) -> None:
    os.removexattr(_victim(targets, "has xattr"), "user.inturn")


@probe
def chmod_document(targets: Targets) -> None:
    os.fchmod(document_of(targets), 0o666)


@probe
def chown_document(targets: Targets) -> None:
    os.fchown(document_of(targets), -1, os.getgid())


@probe
def utime_document(targets: Targets) -> None:
    os.utime(document_of(targets), (1, 1))


@probe
def set_attribute_of_document(targets: Targets) -> None:
    os.setxattr(document_of(targets), "user.inturn", b"x")


@probe
def set_flags_of_document(targets: Targets) -> None:
    flags = array.array("L", [0])
    fcntl.ioctl(document_of(targets), 0x80086601, flags)  # FS_IOC_GETFLAGS
    flags[0] |= 0x40  # nodump
    fcntl.ioctl(document_of(targets), 0x40086602, flags)  # FS_IOC_SETFLAGS


@probe
def write_document(targets: Targets) -> None:
    """A reading descriptor cannot be written to; EBADF says so, wherever."""
    try:
        os.pwrite(document_of(targets), b"x", 0)
    except OSError as error:
        raise PermissionError(errno.EACCES, "read-only") from error
