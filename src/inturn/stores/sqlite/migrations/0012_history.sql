-- What happened in each minute and hour is kept for longer than the events (`inturn.store_history`).
--
--   history         one row for each minute or hour (`span`, in microseconds, from `at` on) and series: the queue, a level
--                   or a customer. `figures` are JSON (`inturn.policy.history.Figures`): small, always read and written whole
--   history_cursor  the last event that is part of it. Written together with the rows

CREATE TABLE history (
    span INTEGER NOT NULL,
    at INTEGER NOT NULL,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    figures TEXT NOT NULL,
    PRIMARY KEY (span, at, scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX history_series ON history (scope, key, span, at);

CREATE TABLE history_cursor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    event INTEGER NOT NULL,
    began_at INTEGER,
    until INTEGER NOT NULL,
    next_at INTEGER NOT NULL
) STRICT;
INSERT INTO history_cursor (one, event, until, next_at) SELECT 1, event, 0, 0 FROM queue_state;
