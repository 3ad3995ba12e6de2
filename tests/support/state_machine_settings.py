"""How far the state machine goes: 100 runs of 50 steps, many more in a soak."""

import os

from hypothesis import HealthCheck, settings

SOAK = os.environ.get("INTURN_SOAK") == "1"
STATE_MACHINE_SETTINGS = settings(
    max_examples=5_000 if SOAK else 100,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
