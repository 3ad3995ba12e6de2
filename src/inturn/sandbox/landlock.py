"""Restrict file access, TCP ports and signals of this process with Landlock.

The kernel's documentation is Documentation/userspace-api/landlock.rst; the numbers are from linux/landlock.h.
"""

import ctypes
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_DIR, MAKE_FILE = 1 << 7, 1 << 8
TRUNCATE = 1 << 14
FILESYSTEM_RIGHTS_BY_VERSION = {
    1: (1 << 13) - 1,
    2: (1 << 14) - 1,
    3: (1 << 15) - 1,
    4: (1 << 15) - 1,
    5: (1 << 16) - 1,
}
"""All rights that a version knows; those that no rule grants are refused. Version 5 added ioctl on devices."""
TCP_BIND_AND_CONNECT = 3  # version 4
ABSTRACT_SOCKETS_AND_SIGNALS = 3  # version 6
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
WRITABLE_FOLDER_RIGHTS = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | REMOVE_FILE | REMOVE_DIR | MAKE_FILE | MAKE_DIR

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long


@dataclass(frozen=True, slots=True)
class LandlockStatus:
    """What Landlock restricts in this process."""

    version: int = 0
    files: bool = False
    tcp: bool = False
    signals: bool = False


class _RulesetAttr(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneathAttr(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Return the version of Landlock's ABI in this kernel; 0 if it has none or it is disabled."""
    return max(0, _call(CREATE_RULESET, None, 0, CREATE_RULESET_VERSION))


def restrict(readable: Sequence[Path], writable: Path) -> LandlockStatus:
    """Confine the calling thread and all that it starts; needs PR_SET_NO_NEW_PRIVS."""
    abi = version()
    if abi == 0:
        return LandlockStatus()
    rights = FILESYSTEM_RIGHTS_BY_VERSION[min(abi, 5)]
    rules = _RulesetAttr(
        rights, TCP_BIND_AND_CONNECT if abi >= 4 else 0, ABSTRACT_SOCKETS_AND_SIGNALS if abi >= 6 else 0
    )
    # Older kernels refuse fields they do not know.
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _require_success("create_ruleset", _call(CREATE_RULESET, ctypes.byref(rules), size, 0))
    try:
        for path in readable:
            # Libraries are mapped, not executed: nothing needs the right to execute.
            _allow(ruleset, path, rights & (READ_FILE | READ_DIR))
        _allow(ruleset, writable, rights & WRITABLE_FOLDER_RIGHTS)
        _require_success("restrict_self", _call(RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return LandlockStatus(abi, files=True, tcp=abi >= 4, signals=abi >= 6)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= FILE_RIGHTS
        rule = _PathBeneathAttr(rights, fd)
        _require_success("add_rule", _call(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(fd)


def _call(number: int, *arguments: object) -> int:
    c_arguments = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return int(_LIBC.syscall(ctypes.c_long(number), *c_arguments))


def _require_success(step: str, result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock_{step}: {os.strerror(code)}")
    return result
