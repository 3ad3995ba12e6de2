"""The example from beginning to end, or one of its two commands around a worker: `submit` and `summary`."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from inturn.blobs import Blobs, open_blobs
from inturn.errors import InturnError
from inturn.queue import Queue
from inturn.stores import open_store
from pipeline.documents import submit_documents
from pipeline.processors import FOLDER_VARIABLE
from pipeline.summary import summarize, table, whole_documents

DEFAULT_DOCUMENTS: Final = 60
MAX_DOCUMENTS: Final = 1_000
MAX_STARTS: Final = 5
"""How often a worker that is killed is started, as systemd would."""


class PipelineError(InturnError):
    """The example cannot go on."""

    code = "pipeline"


def main(argv: Sequence[str]) -> int:
    """Run what was asked for; 0 if it worked."""
    options = _parse_options(argv)
    try:
        if options.command == "submit":
            with _open_queue(options.store) as queue:
                count = submit_documents(queue, _open_blobs(options.store), options.documents)
            print(f"{count} documents of two customers submitted")
        elif options.command == "summary":
            with _open_queue(options.store) as queue:
                print(table(summarize(queue)))
        else:
            with _work_folder(options.folder) as folder:
                run(folder, options.documents)
    except (InturnError, OSError) as error:
        print(f"pipeline: {error}", file=sys.stderr)
        return 1
    return 0


def run(folder: Path, documents: int) -> None:
    """Submit, process, and say what became of the documents."""
    store, exported = folder / "inturn.db", folder / "exported"
    with _open_queue(store) as queue:
        count = submit_documents(queue, _open_blobs(store), documents)
        print(f"{count} documents of two customers submitted to {store}", flush=True)
        _work(store, exported)
        left = [document for document in whole_documents(queue) if document.finished_at is None]
        if left:
            raise PipelineError(f"{len(left)} documents have not ended, the first {left[0].id}")
        print(table(summarize(queue)))
    print(f"{len(list(exported.glob('*.json')))} files in {exported}")


def _work(store: Path, exported: Path) -> None:
    """Run a worker until nothing is left to do."""
    command = [sys.executable, "-m", "inturn.cli", "worker", "pipeline.processors"]
    command += ["--store", str(store), "--slots", "2", "--lease", "5", "--until-empty"]
    environment = {
        **os.environ,
        FOLDER_VARIABLE: str(exported),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    for _ in range(MAX_STARTS):
        with (store.parent / "worker.log").open("ab") as log:
            status = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False).returncode  # noqa: S603
        if status == 0:
            return
        if status > 0:
            break
        print(f"the worker was killed by signal {-status}; it is started again", flush=True)
    raise PipelineError(f"the worker ended with status {status}; see {store.parent / 'worker.log'}")


def _open_queue(store: Path) -> Queue:
    return Queue(open_store(str(store)))


def _open_blobs(store: Path) -> Blobs:
    return open_blobs(f"{store}.blobs")


@contextmanager
def _work_folder(requested: Path | None) -> Iterator[Path]:
    """The folder that was asked for, which is kept, or a temporary one."""
    if requested is None:
        with tempfile.TemporaryDirectory(prefix="inturn-pipeline-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    requested.mkdir(parents=True, exist_ok=True)
    if any(requested.iterdir()):
        raise PipelineError(f"{requested} is not empty: name a new folder, or an empty one")
    yield requested


def _parse_options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pipeline", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("submit", "summary"), help="without one, everything is run")
    parser.add_argument("--documents", type=_parse_count, default=DEFAULT_DOCUMENTS, metavar="N", help="of the flood")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="work there and keep everything; new or empty")
    parser.add_argument("--store", type=Path, default=Path("inturn.db"), metavar="FILE", help="of submit and summary")
    return parser.parse_args(argv)


def _parse_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_DOCUMENTS:
        raise argparse.ArgumentTypeError(f"a whole number from 1 to {MAX_DOCUMENTS}, not {text!r}")
    return int(text)
