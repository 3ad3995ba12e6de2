"""The demo's web page, a process of its own: `python -m demo.server_process STORE BLOBS SOCKET`. As `inturn serve`.

It ends when it is told to, or when whoever started it is gone.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence

from inturn.blobs import open_blobs
from inturn.http import server
from inturn.http.settings import ServerSettings
from inturn.http.state import AppState
from inturn.queue import Queue
from inturn.stores import open_store

GRACE_SECONDS = 1.0


def main(argv: Sequence[str]) -> int:
    """Serve on a socket that listens already, until told to stop."""
    store, blobs, number = argv
    with Queue(open_store(store)) as queue:
        service = AppState(queue, open_blobs(blobs), ServerSettings(store=store))
        threading.Thread(target=_stop_when_parent_exits, daemon=True).start()
        server.serve(service, socket.socket(fileno=int(number)), grace=GRACE_SECONDS, on_ready=lambda: None)
    return 0


def _stop_when_parent_exits() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
