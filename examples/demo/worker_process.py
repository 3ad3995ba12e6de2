"""One worker of the demo, a process of its own: `python -m demo.worker_process STORE BLOBS NAME`.

It ends when it is told to, or when whoever started it is gone: then nobody holds the other end of its input any more.
"""

import os
import sys
import threading
from collections.abc import Sequence

from inturn.blobs import open_blobs
from inturn.queue import Queue
from inturn.stores import open_store
from inturn.values import SECOND
from inturn.worker.options import WorkerOptions
from inturn.worker.worker import Worker


def main(argv: Sequence[str]) -> int:
    """Work with the default processor, one document at a time, until told to stop."""
    store, blobs, name = argv
    with Queue(open_store(store)) as queue:
        options = WorkerOptions(slots=1, grace=SECOND, name=name)
        worker = Worker(queue, blobs=open_blobs(blobs), options=options)
        threading.Thread(target=_stop_when_parent_exits, args=(worker,), daemon=True).start()
        worker.run()
    return 0


def _stop_when_parent_exits(worker: Worker) -> None:
    while os.read(0, 1):
        pass
    worker.stop(at_once=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
