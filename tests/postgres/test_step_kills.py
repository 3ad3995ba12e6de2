"""G1, G3: steps and parts with real workers that are killed, on PostgreSQL."""

from pathlib import Path

from inturn.stores.postgres import PostgresStore
from services import needs_postgres
from step_kills import Start, check_steps_survive_kills
from worker_fixtures import start as start_script

__all__ = ["start_script"]
pytestmark = needs_postgres


def test_g3_each_step_is_recorded_once_and_each_split_goes_on_once(
    store: PostgresStore,
    url: str,
    tmp_path: Path,
    start_script: Start,
) -> None:
    check_steps_survive_kills(store, url, tmp_path, start_script)
