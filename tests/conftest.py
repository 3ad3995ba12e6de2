"""Hypothesis profiles: "quick", or "soak" with INTURN_SOAK=1. With CI=true "quick" always draws the same examples."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

import traced_children
from long_files import LONG_FILES

pytest_plugins = ["inturn.testing.plugin"]

settings.register_profile(
    "quick",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "soak",
    deadline=None,
    derandomize=False,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts background commands with SIGINT ignored, and every process started here would
    # inherit that: tests that press Ctrl-C would then wait until their timeout.
    signal.signal(signal.SIGINT, signal.default_int_handler)
traced_children.let_children_end()
settings.load_profile("soak" if os.environ.get("INTURN_SOAK") == "1" else "quick")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files: a process that got one of them last would end long after the others."""
    places = {f"tests/{name}": place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


@pytest.fixture(autouse=True)
def _loggers_as_before() -> Iterator[None]:
    """Undo what a command run in this process did to the loggers: its handler writes to a stream that gets closed."""
    loggers = [logging.getLogger(name) for name in ("inturn", "uvicorn", "asyncio")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


@pytest.fixture
def untraced() -> Iterator[None]:
    """Without coverage's tracer: for tests that play millions of steps through code that other tests cover."""
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)


def pytest_collection_finish() -> None:
    """Leave the tests themselves out of garbage collections: hundreds of thousands of objects that stay."""
    gc.collect()
    gc.freeze()
