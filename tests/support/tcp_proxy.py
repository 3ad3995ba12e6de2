"""A TCP proxy that can cut what goes through it, or let it hang as if the other side were gone without a word."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Proxy:
    """Listens on a port of its own and passes everything on to one server, while it feels like it."""

    def __init__(self, port: int) -> None:
        self.target_port = port
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._closed = False
        self._accept_thread = threading.Thread(target=self._accept, daemon=True)
        self._accept_thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed = True
        self._flowing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes whoever accepts: closing alone would not
        self._accept_thread.join()
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Break every connection off."""
        with self._lock:
            gone, self._sockets = self._sockets, []
        for item in gone:
            with suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
            item.close()

    def hang(self) -> None:
        """Half open: connections stand, new ones are taken, and nothing passes any more."""
        self._flowing.clear()

    def flow(self) -> None:
        """Let new connections through again. What hung before is gone."""
        self.cut()
        self._flowing.set()

    def _accept(self) -> None:
        while not self._closed:
            with suppress(OSError):
                client, _ = self._listener.accept()
                with self._lock:
                    self._sockets.append(client)
                server = socket.create_connection(("127.0.0.1", self.target_port))
                with self._lock:
                    self._sockets.append(server)
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=(one, other), daemon=True).start()

    def _forward(self, source: socket.socket, destination: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._flowing.wait()
                destination.sendall(data)
        for item in (source, destination):
            with suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
