"""Client of the fork server in forked_cli.py: runs `inturn ARGS` with this process's pipes, folder and environment.

It imports nothing but built-in modules, so that a start costs 10 ms of CPU; `inturn` itself costs 600 ms.
Usage: python -I -S forked_cli_client.py SOCKET ARGS...
"""

import _signal as signal
import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LENGTH_BYTES = 4
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def request(
    name: str, arguments: "Iterable[str]", folder: str, environment: "Mapping[str, str]", streams: "Iterable[int]"
) -> tuple[_socket.socket, int]:
    """Have a command started with these streams; its connection and its process id."""
    fields = [folder, *(f"{key}={value}" for key, value in environment.items()), "", *arguments]
    body = b"\0".join(map(os.fsencode, fields))
    fds = b"".join(fd.to_bytes(4, sys.byteorder) for fd in streams)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(f"\0{name}")
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)]
    connection.sendmsg([len(body).to_bytes(LENGTH_BYTES, "big")], rights)
    connection.sendall(body)
    return connection, receive_number(connection)


def receive_number(connection: _socket.socket) -> int:
    """A process id, and later the exit code, negative for a signal."""
    data = b""
    while len(data) < LENGTH_BYTES:
        part = connection.recv(LENGTH_BYTES - len(data))
        if not part:
            raise ConnectionResetError("the fork server is gone")
        data += part
    return int.from_bytes(data, "big", signed=True)


def main() -> None:
    early: list[int] = []
    for number in FORWARDED:
        signal.signal(number, lambda number, _: early.append(number))
    connection, process = request(sys.argv[1], sys.argv[2:], os.getcwd(), os.environ, (0, 1, 2))  # noqa: PTH109
    for number in FORWARDED:
        signal.signal(number, lambda number, _: os.kill(process, number))
    for number in early:
        os.kill(process, number)
    for stream in (0, 1, 2):  # the command has them; a pipe must end when the command ends
        os.close(stream)
    code = receive_number(connection)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
