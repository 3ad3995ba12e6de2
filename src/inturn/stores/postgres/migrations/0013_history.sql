-- What happened in each minute and hour is kept for longer than the events (`inturn.store_history`).
--
--   history         one row for each minute or hour (`span`, in microseconds, from `at` on) and series: the queue, a level
--                   or a customer. `figures` are JSON (`inturn.policy.history.Figures`): small, always read and written whole
--   history_cursor  the last event that is part of it. Written together with the rows

CREATE TABLE history (
    span bigint NOT NULL,
    at bigint NOT NULL,
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    figures text NOT NULL,
    PRIMARY KEY (span, at, scope, key)
);
CREATE INDEX history_series ON history (scope, key, span, at);

CREATE TABLE history_cursor (
    one int PRIMARY KEY CHECK (one = 1),
    event bigint NOT NULL,
    began_at bigint,
    until bigint NOT NULL,
    next_at bigint NOT NULL
);
INSERT INTO history_cursor (one, event, until, next_at) SELECT 1, last, 0, 0 FROM event_sequence;
