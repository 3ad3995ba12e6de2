"""`inturn` commands forked from one warm process, with real pipes, folder, environment, exit code and signals.

A fresh `python -m inturn.cli` costs 600 ms of CPU before it does anything, a fork of a process that has imported
everything costs 40 ms. A fork server is started by the first command of a test run and ends with the run.
"""

import atexit
import functools
import gc
import importlib
import io
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import forked_cli_client
import inturn
from forked_cli_client import LENGTH_BYTES, receive_number, request

PRELOADED = (
    "inturn.cli",
    "inturn.http.server",
    "inturn.stores.postgres.store",
    "inturn.stores.sqlite.store",
    "inturn.worker.content",
    "inturn.worker.worker",
)
REMOVED_ENV_PREFIXES = ("INTURN_", "LC_", "LANG", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "TYPER", "TERM")


LOADED_WITH = ("LD_PRELOAD", "FAKETIME", "NO_FAKE_STAT")
"""Variables that count when a program is loaded: each choice of values has a fork server of its own."""


def socket_name(environment: Mapping[str, str] = os.environ) -> str:
    """The abstract socket of the fork server for such commands."""
    return _start_fork_server(*((name, environment[name]) for name in LOADED_WITH if name in environment))


@functools.cache
def _start_fork_server(*loaded_with: tuple[str, str]) -> str:
    name = f"inturn-tests-{os.getpid()}-{time.monotonic_ns()}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{name}")
    listener.listen(64)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(REMOVED_ENV_PREFIXES)}
    own = [str(Path(__file__).parent), str(Path(inturn.__file__).parents[1])]
    process = subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-P", __file__, str(listener.fileno())],
        env=environment | {"PYTHONPATH": os.pathsep.join(own)} | dict(loaded_with),
        stdin=subprocess.PIPE,
        pass_fds=[listener.fileno()],
        start_new_session=True,  # a Ctrl-C at the terminal is for pytest
    )
    listener.close()
    atexit.register(process.communicate)  # the end of its input ends it
    return name


def command(*arguments: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """What to start in this environment for `inturn ARGUMENTS`, instead of `python -m inturn.cli ARGUMENTS`."""
    return [sys.executable, "-I", "-S", forked_cli_client.__file__, socket_name(environment), *arguments]


class ForkedProcess:
    """A command with its own process id and a pipe for its errors; what a `Popen` can do, as far as it is needed."""

    def __init__(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        reader, writer = os.pipe()
        with Path(os.devnull).open("r+b") as null:
            streams = (null.fileno(), 1, writer)
            self._connection, self.pid = request(socket_name(environment), arguments, str(folder), environment, streams)
        os.close(writer)
        self.stderr: IO[str] = os.fdopen(reader, encoding="utf-8")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self._connection.settimeout(0)
            try:
                self.returncode = receive_number(self._connection)
            except BlockingIOError:
                return None
            self._connection.close()
        return self.returncode

    def wait(self, timeout: float) -> int:
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                self.returncode = receive_number(self._connection)
            except TimeoutError as error:
                raise TimeoutError(f"the command did not end within {timeout} s") from error
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self.poll() is None:
            self.send_signal(signal.SIGKILL)


class _ForkServer:
    """Forks a child for each connection; a connection that closes kills its child."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(0, selectors.EVENT_READ)
        self._children: dict[int, tuple[socket.socket, int]] = {}

    def serve(self) -> list[bytes] | None:
        """In a child: the fields of its request. In the server: None, once its input has ended."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == 0:
                    for process in self._children:
                        os.kill(process, signal.SIGKILL)
                    return None
                if key.fileobj is self._listener:
                    connection, _ = self._listener.accept()
                    if (fields := self._fork(connection)) is not None:
                        return fields
                elif key.data in self._children:
                    self._on_child(key.data, is_over=isinstance(key.fileobj, int))

    def _fork(self, connection: socket.socket) -> list[bytes] | None:
        length, streams, *_ = socket.recv_fds(connection, LENGTH_BYTES, 3)
        wanted, body = int.from_bytes(length, "big"), b""
        while len(body) < wanted:
            body += connection.recv(wanted - len(body))
        process = os.fork()
        if process == 0:
            connection.close()
            self._close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            return body.split(b"\0")
        for stream in streams:
            os.close(stream)
        descriptor = os.pidfd_open(process)
        self._children[process] = connection, descriptor
        self._selector.register(connection, selectors.EVENT_READ, process)
        self._selector.register(descriptor, selectors.EVENT_READ, process)
        self._reply(connection, process)
        return None

    def _on_child(self, process: int, *, is_over: bool) -> None:
        """The child has ended, or its client has."""
        connection, descriptor = self._children[process]
        if not is_over:
            self._selector.unregister(connection)
            os.kill(process, signal.SIGKILL)
            return
        del self._children[process]
        _, status = os.waitpid(process, 0)
        self._reply(connection, os.waitstatus_to_exitcode(status))
        if connection in self._selector.get_map():
            self._selector.unregister(connection)
        self._selector.unregister(descriptor)
        connection.close()
        os.close(descriptor)

    @staticmethod
    def _reply(connection: socket.socket, number: int) -> None:
        try:
            connection.sendall(number.to_bytes(LENGTH_BYTES, "big", signed=True))
        except OSError:  # the client has been killed
            return

    def _close(self) -> None:
        self._selector.close()
        self._listener.close()
        for connection, descriptor in self._children.values():
            connection.close()
            os.close(descriptor)


def _become(fields: list[bytes], library: list[str]) -> None:
    """Take over folder, environment, streams and arguments as if started there with `python -m inturn.cli`."""
    folder, *rest = map(os.fsdecode, fields)
    end = rest.index("")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(item.split("=", 1) for item in rest[:end])
    time.tzset()
    path = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:] = [folder, *path, *library]
    sys.argv = ["inturn", *rest[end + 1 :]]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), "utf-8", line_buffering=os.isatty(1))  # noqa: SIM115
    errors = open(2, "wb", closefd=False)  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(errors, "utf-8", "backslashreplace", line_buffering=True)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def _exit(code: int) -> None:
    """End as an interpreter does, without taking its modules apart: that costs 60 ms of CPU."""
    threading._shutdown()  # noqa: SLF001 - what the interpreter itself calls
    atexit._run_exitfuncs()  # noqa: SLF001 - the same
    sys.stdout.flush()
    os._exit(code)


def _main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    own = [*os.environ["PYTHONPATH"].split(os.pathsep), ""]
    library = [part for part in sys.path if part not in own]
    listener = socket.socket(fileno=int(sys.argv[1]))
    for name in PRELOADED:
        importlib.import_module(name)
    import traced_children  # noqa: PLC0415 - the client's side does not need it
    from inturn.cli import main  # noqa: PLC0415 - nor this

    traced_children.let_children_end()
    gc.freeze()
    if (fields := _ForkServer(listener).serve()) is not None:
        _become(fields, library)
        try:
            main()
        except SystemExit as ended:
            _exit(ended.code if isinstance(ended.code, int) else 0)


if __name__ == "__main__":
    _main()
