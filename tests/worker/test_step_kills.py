"""G1, G3: steps and parts with real workers that are killed."""

from step_kills import Start, check_steps_survive_kills
from worker_harness import WorkerHarness


def test_g3_each_step_is_recorded_once_and_each_split_goes_on_once(harness: WorkerHarness, start: Start) -> None:
    check_steps_survive_kills(harness.store, str(harness.path), harness.folder, start)
