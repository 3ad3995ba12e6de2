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

from inturn.extract.extract import extract
from inturn.processor_api import Reject
from inturn.sandbox import confinement


@dataclass(frozen=True)
class ChildResult:
    """What a child said, one value a line, and how it ended."""

    lines: list[Any]
    code: int
    errors: str


RunInSandbox = Callable[..., ChildResult]


class BytesDocument:
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


def send(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def extract_file(file: BinaryIO) -> None:
    """Extract a file that was opened for us before the box closed."""
    name, data = Path(file.name).name, file.read()
    try:
        result = extract(BytesDocument(name, data))
    except Reject as error:
        send({"rejected": str(error)})
    else:
        send({"value": result.value, "files": sorted(result.files)})


def spin() -> None:
    while True:
        pass


def fill_memory() -> None:
    held = [bytearray(64 << 20) for _ in range(32)]
    send(len(held))


def big_file(scratch: str) -> None:
    with Path(scratch, "big").open("wb") as file:
        file.writelines(bytes(1 << 20) for _ in range(3))


def many_files(scratch: str) -> None:
    held = [Path(scratch, str(i)).open("wb") for i in range(100)]  # noqa: SIM115 - the point is that they stay open
    send(len(held))


def bind() -> None:
    """TCP by a socket that was made before the box closed: seccomp cannot help here, Landlock must."""
    SOCKET.bind(("127.0.0.1", 0))


def trace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def renew_for_two_documents() -> None:
    """Burn most of a second for each of two documents under a limit of one: fine if the seconds are renewed."""
    for _ in range(2):
        CONFINEMENT.renew_cpu_limit()
        start = time.clock_gettime(confinement.CPU_CLOCK_ID)
        while time.clock_gettime(confinement.CPU_CLOCK_ID) < start + 0.8:
            pass
    send("done")


ACTIONS: dict[str, Callable[..., Any]] = {
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
    "fill": fill_memory,
    "spin": spin,
    "big_file": big_file,
    "many_files": many_files,
    "twice": renew_for_two_documents,
    "says": lambda: send(str(CONFINEMENT)),
}

if __name__ == "__main__":
    scratch, cpu, what, *arguments = sys.argv[1:]
    # Each is opened for itself, also one that comes more than once.
    OPEN_FILES = [Path(path).open("rb") for path in arguments] if what == "one" else []  # noqa: SIM115
    SOCKET = socket.socket() if what == "bind" else None
    limits = confinement.SandboxLimits(cpu_seconds=int(cpu), file_bytes=2 << 20)
    CONFINEMENT = confinement.enter_sandbox(limits, confinement.needed_paths(), Path(scratch), strict=True)
    if what == "one":
        for file in OPEN_FILES:
            CONFINEMENT.renew_cpu_limit()
            extract_file(file)
    else:
        try:
            ACTIONS[what](*arguments)
            send("did it")
        except (OSError, MemoryError) as error:
            send({"refused": type(error).__name__})
