"""How far the state machine goes, in runs of 50 steps; `docs/design/testing.md` says why so far."""

import os

from hypothesis import HealthCheck, settings

SOAK = os.environ.get("INTURN_SOAK") == "1"
SOAK_RUNS = 5_000


def state_machine_settings(runs: int) -> settings:
    """So many runs, or 5,000 in a soak."""
    return settings(
        max_examples=SOAK_RUNS if SOAK else runs,
        stateful_step_count=50,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
