"""A bare table on psycopg 3: a claim by FOR UPDATE SKIP LOCKED, then a durable UPDATE that stores the results.

No customers, leases, events, counters or retries. Claims run on a connection with `synchronous_commit=off`, as a lost
claim is only claimed again; results run on one with `synchronous_commit=on`. Both connections prepare at first use.
"""

import psycopg
from psycopg.types.json import Jsonb

from bench.peers.claimer import Step

SCHEMA = b"""
CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    priority smallint NOT NULL,
    state text NOT NULL DEFAULT 'waiting',
    payload jsonb NOT NULL,
    result jsonb,
    worker text,
    started_at timestamptz,
    finished_at timestamptz
);
CREATE INDEX job_waiting ON job (priority, id) WHERE state = 'waiting';
"""
FILL = b"""
INSERT INTO job (priority, payload)
SELECT 1 + n %% %s %% 9, jsonb_build_object('payload', repeat('x', 200)) FROM generate_series(1, %s) AS n
"""
CLAIM = b"""
UPDATE job SET state = 'running', worker = %s, started_at = now()
WHERE id = ANY (ARRAY(
    SELECT id FROM job WHERE state = 'waiting' ORDER BY priority, id LIMIT %s FOR UPDATE SKIP LOCKED
))
RETURNING id, payload
"""
FINISH = b"""
UPDATE job SET state = 'done', finished_at = now(), result = outcome.result
FROM unnest(%s::bigint[], %s::jsonb[]) AS outcome (id, result)
WHERE job.id = outcome.id
"""


def setup(target: str) -> None:
    with psycopg.connect(target) as connection:
        connection.execute(SCHEMA)


def fill(target: str, documents: int, customers: int) -> None:
    with psycopg.connect(target) as connection:
        connection.execute(FILL, (customers, documents))


class Claimer:
    def __init__(self, target: str, worker: str, limit: int) -> None:
        self._worker, self._limit = worker, limit
        self._claiming = psycopg.connect(
            target, autocommit=True, prepare_threshold=0, options="-c synchronous_commit=off"
        )
        self._finishing = psycopg.connect(target, autocommit=True, prepare_threshold=0)

    def step(self) -> Step:
        rows = self._claiming.execute(CLAIM, (self._worker, self._limit)).fetchall()
        if rows:
            self._finishing.execute(FINISH, ([row[0] for row in rows], [Jsonb({"pages": 3})] * len(rows)))
        return Step(len(rows), len(rows))

    def finish(self) -> int:
        return 0

    def close(self) -> None:
        self._claiming.close()
        self._finishing.close()
