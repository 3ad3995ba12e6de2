"""Hypothesis profiles: "quick", or "soak" with INTURN_SOAK=1. With CI=true "quick" always draws the same examples."""

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

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
settings.load_profile("soak" if os.environ.get("INTURN_SOAK") == "1" else "quick")


@pytest.fixture
def untraced() -> Iterator[None]:
    """Without coverage's tracer: for tests that play millions of steps through code that other tests cover."""
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)
