"""For `make cover`: what was traced in children of workers and in a sandbox is saved."""

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from inturn.worker.pool import ProcessPool

if TYPE_CHECKING:
    from coverage.config import CoverageConfig

CONFIG = "COVERAGE_PROCESS_CONFIG"
"""What coverage hands to processes, in their environment."""
DATA_FILE = ".coverage"
EXIT_TIMEOUT_SECONDS = 2.0
"""For a child that is busy, and is killed as without coverage."""


def environment_in(scratch: Path) -> dict[str, str]:
    """What makes a child trace itself that may write nowhere but into this folder."""
    if CONFIG not in os.environ:
        return {}
    config = _config()
    config.data_file = str(scratch / DATA_FILE)
    return {CONFIG: config.serialize()}


def collect_from(scratch: Path) -> None:
    """Put what such a child has saved beside the data of all others."""
    if CONFIG in os.environ:
        for path in scratch.glob(f"{DATA_FILE}.*"):
            shutil.move(path, Path(_config().data_file).parent)


def _config() -> "CoverageConfig":
    from coverage.config import CoverageConfig  # noqa: PLC0415 - most runs do not need it

    return CoverageConfig.deserialize(os.environ[CONFIG])


def let_children_end() -> None:
    """Let the children of a worker that ends do so themselves: a process that is killed saves nothing.

    They end when their channel is closed.
    """
    if CONFIG not in os.environ:
        return
    close = ProcessPool.close

    def close_in_order(pool: ProcessPool) -> None:
        children = [] if pool.spec.limits is not None else pool.children  # a worker hands no coverage to a sandbox
        for child in children:
            child.channel.close()
        until = time.monotonic() + EXIT_TIMEOUT_SECONDS
        while time.monotonic() < until and not all(child.has_exited() for child in children):
            time.sleep(0.01)
        close(pool)

    ProcessPool.close = close_in_order  # type: ignore[method-assign]
