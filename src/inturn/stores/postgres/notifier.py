"""Notify waiting processes that there may be something to claim. A hint only: waiters also poll.

NOTIFY makes commits queue up behind each other, so it is sent after the commit, at once and then at most every
`MIN_NOTIFY_INTERVAL_SECONDS` by a process: on a connection of its own, or along with a submit, in the same trip
behind its commit.
"""

import logging
import threading
import time
from contextlib import suppress
from typing import Final

import psycopg

from inturn.stores.postgres.connection import RESPONSE_TIMEOUT_SECONDS, Database
from inturn.stores.postgres.libpq import BoundStatement, TimeoutConnection, bind
from inturn.stores.postgres.queries import QUERIES

log: Final = logging.getLogger("inturn.postgres")
MIN_NOTIFY_INTERVAL_SECONDS: Final = 0.1
NEVER: Final = float("-inf")
POLL_INTERVAL_SECONDS: Final = 0.5
"""Seconds between polls of a waiter that listens."""
FALLBACK_POLL_SECONDS: Final = 0.1
"""Seconds between polls where LISTEN is not available."""


class Notifier:
    """Sends and receives notifications of a queue. Errors are ignored: waiters also poll."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._channel = f"inturn_{database.address.schema}"
        self._send_lock = threading.Lock()
        self._sender: TimeoutConnection | None = None
        self._notified_at = NEVER
        self._timer: threading.Timer | None = None
        self._listen_lock = threading.Lock()
        self._listener: TimeoutConnection | None = None
        self._closed = False

    # -- rings --------------------------------------------------------------------------------------------------

    def take_notify_statement(self) -> BoundStatement | None:
        """Return the NOTIFY statement for a caller that sends it behind its commit, if one is allowed now."""
        with self._send_lock:
            if self._closed or self._timer is not None or self._seconds_until_allowed() > 0:
                return None
            self._notified_at = time.monotonic()
            return bind("notify", {"channel": self._channel})

    def cancel_notify(self, statement: BoundStatement | None) -> None:
        """Undo `take_notify_statement`: nothing was committed."""
        if statement is not None:
            with self._send_lock:
                self._notified_at = NEVER

    def _seconds_until_allowed(self) -> float:
        """Return the seconds until the next notification is allowed."""
        return self._notified_at + MIN_NOTIFY_INTERVAL_SECONDS - time.monotonic()

    def notify(self) -> None:
        """Notify all waiting processes, now or when the interval allows."""
        if self._database.is_behind_pooler:
            return
        with self._send_lock:
            if self._closed or self._timer is not None:
                return
            wait = self._seconds_until_allowed()
            if wait <= 0:
                self._send()
                return
            self._timer = threading.Timer(wait, self._notify_delayed)
            self._timer.daemon = True
            self._timer.start()

    def _notify_delayed(self) -> None:
        with self._send_lock:
            self._timer = None
            if not self._closed:
                self._send()

    def _send(self) -> None:
        self._notified_at = time.monotonic()
        try:
            if self._sender is None or self._sender.closed:
                self._sender = self._connect()
            self._sender.execute(QUERIES["notify"], {"channel": self._channel})
        except psycopg.Error as error:
            log.info("could not ring, others will look for themselves: %s", error)
            _close(self._sender)
            self._sender = None

    # -- listens ------------------------------------------------------------------------------------------------

    def wait(self, timeout: float) -> bool:
        """Wait for a notification, the timeout or the next poll; return whether a notification came.

        One thread listens at a time.
        """
        timeout = max(0.0, timeout)
        if self._database.is_behind_pooler:
            time.sleep(min(timeout, FALLBACK_POLL_SECONDS))
            return False
        with self._listen_lock:
            try:
                return self._listen(min(timeout, POLL_INTERVAL_SECONDS))
            except psycopg.Error as error:
                log.info("could not listen, looking instead: %s", error)
                _close(self._listener)
                self._listener = None
                time.sleep(min(timeout, FALLBACK_POLL_SECONDS))
                return False

    def _listen(self, timeout: float) -> bool:
        if self._closed:
            return False
        if self._listener is None or self._listener.closed:
            self._listener = self._connect()
            self._listener.execute(b"LISTEN " + self._channel.encode())
            return False  # what came before could not be heard: look once more
        return any(self._listener.notifies(timeout=timeout, stop_after=1))

    def close(self) -> None:
        """Send a pending notification and close the connections."""
        with self._send_lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
                self._send()
            self._closed = True
            _close(self._sender)
            self._sender = None
        with self._listen_lock:
            _close(self._listener)
            self._listener = None

    def _connect(self) -> TimeoutConnection:
        connection = TimeoutConnection.connect(self._database.address.conninfo, autocommit=True)
        connection.response_timeout = RESPONSE_TIMEOUT_SECONDS
        return connection


def _close(connection: TimeoutConnection | None) -> None:
    if connection is not None:
        with suppress(psycopg.Error):
            connection.close()
