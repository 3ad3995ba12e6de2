"""Runs the application under uvicorn until it is told to stop."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from fastapi import FastAPI

from inturn.errors import InvalidInputError
from inturn.http import log
from inturn.http.app import create_app
from inturn.http.state import AppState

UVICORN_LOG: Final = logging.getLogger("uvicorn.error")
CANCEL_GRACE_SECONDS: Final = 2
"""Seconds for the answers to requests that were cut off."""
KEEP_ALIVE_SECONDS: Final = 15
BACKLOG: Final = 2_048


class Server(uvicorn.Server):
    """One that lets those go who wait, before it waits for them."""

    def __init__(self, app: FastAPI, app_state: AppState, *, grace: float) -> None:
        # Forwarded headers are never believed: whoever calls is at the other end of the connection.
        config = uvicorn.Config(
            app,
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            ws="none",
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(grace)) + CANCEL_GRACE_SECONDS,
        )
        super().__init__(config)
        self._app_state = app_state
        self._grace = grace

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer long polls now and let listeners go; everything else under way is finished within the grace."""
        self._app_state.begin_shutdown()
        asyncio.get_running_loop().call_later(self._grace, self._cancel_requests)
        await super().shutdown(sockets)

    def _cancel_requests(self) -> None:
        """End the requests that take longer than the grace; each is told to come again."""
        tasks = list(self.server_state.tasks)
        if tasks:
            log.warning("%d requests were cut off: they took longer than the %g s of grace", len(tasks), self._grace)
            UVICORN_LOG.setLevel(logging.CRITICAL)  # it would write a trace for each of them
        for task in tasks:
            task.cancel()


def require_live_api_key(app_state: AppState) -> None:
    """Refuse to serve others than this machine while nobody could be told apart from anybody."""
    if app_state.settings.needs_keys and not app_state.key_cache.has_live_key():
        raise InvalidInputError(
            f"{app_state.settings.host} can be reached by others, or --auth keys was given, and there is no "
            f"key yet: make"
            f" one with `inturn keys create --operator --name NAME`, or listen on 127.0.0.1 with --auth auto"
        )


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host.strip("[]"), port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise InvalidInputError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; give another --host or --port"
        ) from error
    listening.set_inheritable(True)
    return listening


def serve(app_state: AppState, listener: socket.socket, *, grace: float, on_ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    server = Server(create_app(app_state), app_state, grace=grace)
    with _stop_on_signals(server), listener:
        on_ready()
        server.run([listener])


@contextmanager
def _stop_on_signals(server: Server) -> Iterator[None]:
    """Obey signals that come before uvicorn listens to them.

    Uvicorn raises a signal again when it has stopped: by then there is nothing left to stop.
    """

    def stop(*_: object) -> None:
        server.should_exit = True

    before = {item: signal.signal(item, stop) for item in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for signals, handler in before.items():
            signal.signal(signals, handler)
