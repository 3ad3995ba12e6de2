"""Give a child of a root worker an unprivileged user id, without groups and capabilities.

The user id is derived from the child's process id. No other child and no service of the machine has it.
"""

import ctypes
import os
import stat
import sys
from functools import cache
from pathlib import Path
from typing import Final

FIRST_CHILD_UID: Final = 0x70000000
"""Linux distributions and systemd do not use ids from here to 0x7FFDFFFF; process ids end at 2^22."""
MAX_PID: Final = 1 << 22
OVERFLOW_UID: Final = 65534
"""For containers that do not map such high ids."""

CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_KILL, CAP_SETGID, CAP_SETUID = 0, 1, 2, 5, 6, 7
REQUIRED_CAPABILITIES: Final = sum(
    1 << capability for capability in (CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID)
)
"""Without these, root could not change the user, or not kill the child and read its results."""
PR_SET_KEEPCAPS = 8
CAPABILITY_VERSION_3 = 0x20080522


_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("process", ctypes.c_int))


class _CapabilitySets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def is_root() -> bool:
    """Return whether this process runs as root."""
    return os.geteuid() == 0


def drop(scratch: Path, *, may_search: bool) -> bool:
    """Give up root for good, and give the scratch folder to the new user; return whether this process is not root now.

    With `may_search` it keeps CAP_DAC_READ_SEARCH, to read files that other users may not; Landlock still restricts
    which. An interpreter below /root needs it.
    """
    if not is_root():
        _set_capabilities(0)
        return True
    if not has_required_capabilities():
        return False
    user = child_uid()
    _chown_tree(scratch, user)
    _prctl(PR_SET_KEEPCAPS, 1 if may_search else 0)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _set_capabilities(1 << CAP_DAC_READ_SEARCH if may_search else 0)
    _prctl(PR_SET_KEEPCAPS, 0)
    return True


def child_uid() -> int:
    """Return the user and group id for this process."""
    return FIRST_CHILD_UID + os.getpid() if has_high_uids() else OVERFLOW_UID


@cache
def has_high_uids() -> bool:
    """Return whether this user namespace maps the ids that children get; cached for forked children."""
    return all(_is_mapped(FIRST_CHILD_UID, FIRST_CHILD_UID + MAX_PID, table) for table in ("uid_map", "gid_map"))


@cache
def path_closed_to_others(readable: tuple[Path, ...], folder: Path) -> str | None:
    """Return the first of these paths, or of the loaded modules, that other users may not read; None if there is none.

    Cached for children that are forked later.
    """
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    paths = [*readable, *(Path(file) for file in files if isinstance(file, str) and Path(file).is_absolute())]
    closed = (path for path in paths if not (_others_have_right(path, stat.S_IROTH) and _others_can_enter(path.parent)))
    first = next(closed, None if _others_can_enter(folder) else folder)
    return None if first is None else str(first)


def has_required_capabilities() -> bool:
    """Return whether this process can change its user, and its parent still kill it and read its files."""
    header, sets = _CapabilityHeader(CAPABILITY_VERSION_3, 0), (_CapabilitySets * 2)()
    if _LIBC.capget(ctypes.byref(header), sets) != 0:
        return False
    return int(sets[0].effective) & REQUIRED_CAPABILITIES == REQUIRED_CAPABILITIES


def _others_have_right(path: Path, right: int) -> bool:
    try:
        return bool(path.stat().st_mode & right)
    except OSError:
        return False


@cache
def _others_can_enter(folder: Path) -> bool:
    return _others_have_right(folder, stat.S_IXOTH) and (folder == folder.parent or _others_can_enter(folder.parent))


def _is_mapped(first_id: int, last_id: int, table: str) -> bool:
    """Read this user namespace's map: each line has the first id inside, the first id outside, and the count."""
    try:
        lines = Path("/proc/self", table).read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    ranges = [(int(first), int(count)) for first, _, count in (line.split() for line in lines)]
    return any(first <= first_id and last_id < first + count for first, count in ranges)


def _chown_tree(folder: Path, uid: int) -> None:
    """Change the owner of a folder and of all that the processor has created in it while loading."""
    os.chown(folder, uid, uid, follow_symlinks=False)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(parent, name), uid, uid, follow_symlinks=False)


def _set_capabilities(permitted: int) -> None:
    header, sets = _CapabilityHeader(CAPABILITY_VERSION_3, 0), (_CapabilitySets * 2)()
    sets[0] = _CapabilitySets(permitted, permitted, 0)
    if _LIBC.capset(ctypes.byref(header), sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")
