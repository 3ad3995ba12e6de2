"""Tries every probe, and says what came of each."""

import errno
import os
from pathlib import Path

from .inherited import document_descriptor
from .registry import (
    PROBES,
    REFUSED_ERRNOS,
    Probe,
    Targets,
)


def run_all(targets: Targets) -> dict[str, str]:
    """Try everything; "refused", or how it came out."""
    return {name: _outcome(function, targets) for name, function in PROBES.items()}


def run_all_forked(targets: Targets) -> dict[str, str]:
    """The same outside the box, each in a process of its own: what passes may change the process."""
    return {name: _outcome_in_fork(function, targets) for name, function in PROBES.items()}


def _outcome(function: Probe, targets: Targets) -> str:
    try:
        function(targets)
    except OSError as error:
        return "refused" if error.errno in REFUSED_ERRNOS else errno.errorcode.get(error.errno or 0, str(error))
    return "passed"


def _outcome_in_fork(function: Probe, targets: Targets) -> str:
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        os.write(writing, _outcome(function, targets).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as source:
        outcome = source.read().decode()
    os.waitpid(process, 0)
    return outcome


def aim(targets: Targets, worker: int) -> Targets:
    """Add what only the child knows: who its worker is, where it may write, and its document."""
    return {**targets, "worker": worker, "own": str(Path.cwd()), "document": document_descriptor()}
