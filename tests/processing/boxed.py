"""The child of these tests: enters the sandbox, then does what it is told: `python boxed.py SCRATCH CPU WHAT …`.

It answers in lines of JSON on its standard output, which it had before it was confined.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from inturn.processing import sandbox
from inturn.processing.extract import extract
from inturn.processing.handler import Reject


@dataclass(frozen=True)
class Told:
    """What a child said, one value a line, and how it ended."""

    lines: list[Any]
    code: int
    errors: str


Boxed = Callable[..., Told]


class Given:
    """A document as the processor sees it, from bytes."""

    id, customer, media_type, uri, attempt, cancelled = "1", "acme", None, None, 1, False

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data, self.size = name, data, len(data)
        self.metadata: dict[str, Any] = {}

    def open(self) -> BinaryIO:
        return BytesIO(self.data)

    def path(self) -> Path:
        raise NotImplementedError

    def progress(self, done: float, total: float | None = None) -> None: ...


def tell(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def one(path: str) -> None:
    """Extract the file that was opened for us before the box closed."""
    name, data = Path(path).name, OPENED[path].read()
    try:
        result = extract(Given(name, data))
    except Reject as error:
        tell({"rejected": str(error)})
    else:
        tell({"value": result.value, "files": sorted(result.files)})


def spin() -> None:
    while True:
        pass


def fill() -> None:
    held = [bytearray(64 << 20) for _ in range(32)]
    tell(len(held))


def big_file(scratch: str) -> None:
    with Path(scratch, "big").open("wb") as file:
        file.writelines(bytes(1 << 20) for _ in range(3))


def many_files(scratch: str) -> None:
    held = [Path(scratch, str(i)).open("wb") for i in range(100)]  # noqa: SIM115 - the point is that they stay open
    tell(len(held))


def bind() -> None:
    """TCP by a socket that was made before the box closed: seccomp cannot help here, Landlock must."""
    SOCKET.bind(("127.0.0.1", 0))


def trace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def renewing() -> None:
    """Burn most of a second for each of three documents under a limit of one: fine if the seconds are renewed."""
    for _ in range(3):
        CONFINED.renew()
        start = time.clock_gettime(sandbox.CPU_CLOCK)
        while time.clock_gettime(sandbox.CPU_CLOCK) < start + 0.9:
            pass
    tell("done")


DEEDS: dict[str, Callable[..., Any]] = {
    "one": one,
    "read": lambda path: Path(path).read_bytes(),
    "list": os.listdir,
    "write": lambda path: Path(path).write_bytes(b"x"),
    "tcp": lambda: socket.create_connection(("127.0.0.1", 9)),
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "local": lambda: socket.socket(socket.AF_UNIX),
    "bind": bind,
    "shell": lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True),
    "exec": lambda: os.execv("/bin/sh", ["sh", "-c", "true"]),  # noqa: S606 - it must not start
    "fork": os.fork,
    "signal": lambda: os.kill(os.getppid(), 0),
    "trace": trace,
    "fill": fill,
    "spin": spin,
    "big_file": big_file,
    "many_files": many_files,
    "twice": renewing,
    "says": lambda: tell(str(CONFINED)),
}

if __name__ == "__main__":
    scratch, cpu, what, *arguments = sys.argv[1:]
    OPENED = {path: Path(path).open("rb") for path in arguments} if what == "one" else {}  # noqa: SIM115
    SOCKET = socket.socket() if what == "bind" else None
    limits = sandbox.Limits(cpu=int(cpu), file_size=2 << 20)
    CONFINED = sandbox.enter(limits, sandbox.needed_paths(), Path(scratch), insist=True)
    if what == "one":
        for path in arguments:
            CONFINED.renew()
            one(path)
    else:
        try:
            DEEDS[what](*arguments)
            tell("did it")
        except (OSError, MemoryError) as error:
            tell({"refused": type(error).__name__})
