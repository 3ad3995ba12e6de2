"""Run the application under uvicorn until SIGTERM or Ctrl-C."""

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
"""Time for the responses to cancelled requests."""
KEEP_ALIVE_SECONDS: Final = 15
BACKLOG: Final = 2_048


class Server(uvicorn.Server):
    """Uvicorn with a shutdown that ends long polls and streams first."""

    def __init__(self, app: FastAPI, app_state: AppState, *, grace: float) -> None:
        # Forwarded headers are never trusted: the client is the peer of the connection.
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
        """End long polls and streams now; other requests have the grace period to finish."""
        self._app_state.begin_shutdown()
        asyncio.get_running_loop().call_later(self._grace, self._cancel_requests)
        await super().shutdown(sockets)

    def _cancel_requests(self) -> None:
        """Cancel the requests that take longer than the grace; their callers get 503."""
        tasks = list(self.server_state.tasks)
        if tasks:
            log.warning("%d requests were cancelled: they took longer than the grace of %g s", len(tasks), self._grace)
            UVICORN_LOG.setLevel(logging.CRITICAL)  # uvicorn would log a traceback for each task
        for task in tasks:
            task.cancel()


def require_live_api_key(app_state: AppState) -> None:
    """Refuse to start a server that needs keys while no key is valid."""
    if app_state.settings.needs_keys and not app_state.key_cache.has_live_key():
        raise InvalidInputError(
            f"{app_state.settings.host} can be reached by others, or --auth keys was given, and there is no API key: "
            "create one with `inturn keys create --operator --name NAME` (and the same --store), "
            "or listen on 127.0.0.1 with --auth auto"
        )


def bind(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 takes any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidInputError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; give another --host or --port"
        ) from error
    listener.set_inheritable(True)
    return listener


def serve(app_state: AppState, listener: socket.socket, *, grace: float, on_ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    server = Server(create_app(app_state), app_state, grace=grace)
    with _stop_on_signals(server), listener:
        on_ready()
        server.run([listener])


@contextmanager
def _stop_on_signals(server: Server) -> Iterator[None]:
    """Handle signals that arrive before uvicorn installs its handlers.

    Uvicorn raises a signal again after it has stopped: this handler then ignores it.
    """

    def stop(*_: object) -> None:
        server.should_exit = True

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
