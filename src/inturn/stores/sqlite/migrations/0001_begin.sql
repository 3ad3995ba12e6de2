-- The first tables. The map of all tables, under their names of today, is in 0009_plain_names.sql.

CREATE TABLE queue (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    event INTEGER NOT NULL,
    policy INTEGER NOT NULL,
    ordered TEXT NOT NULL,
    turns TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    paused_by TEXT,
    paused_why TEXT
) STRICT;

CREATE TABLE policy (
    number INTEGER PRIMARY KEY,
    settings TEXT NOT NULL,
    at INTEGER NOT NULL,
    operator TEXT NOT NULL,
    why TEXT NOT NULL
) STRICT;

CREATE TABLE customer (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    count INTEGER,
    updated_at INTEGER,
    settings TEXT,
    paused INTEGER NOT NULL DEFAULT 0,
    capped INTEGER NOT NULL DEFAULT 0,
    keeps INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE document (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    customer INTEGER NOT NULL,
    state TEXT NOT NULL,
    level INTEGER NOT NULL,
    line INTEGER NOT NULL,
    count INTEGER NOT NULL,
    cost REAL NOT NULL,
    submitted_at INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    due_at INTEGER,
    start_by INTEGER,
    started_at INTEGER,
    finished_at INTEGER,
    fence INTEGER,
    worker TEXT,
    settled TEXT,
    error TEXT,
    name TEXT NOT NULL,
    uri TEXT,
    blob TEXT,
    sha256 TEXT,
    size INTEGER,
    media_type TEXT,
    batch TEXT,
    metadata TEXT,
    delay INTEGER NOT NULL,
    pages INTEGER,
    result TEXT
) STRICT;

CREATE UNIQUE INDEX document_id ON document (id);
CREATE INDEX document_customer ON document (customer);
CREATE INDEX document_waiting ON document (customer, line) WHERE state = 'waiting';
CREATE INDEX document_due ON document (state, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX document_start_by ON document (start_by)
    WHERE start_by IS NOT NULL AND attempt = 0 AND state IN ('waiting', 'delayed');
CREATE INDEX document_ended ON document (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX document_batch ON document (batch) WHERE batch IS NOT NULL;
CREATE INDEX document_blob ON document (blob) WHERE blob IS NOT NULL;

CREATE TABLE file (
    document INTEGER NOT NULL,
    name TEXT NOT NULL,
    blob TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    media_type TEXT,
    PRIMARY KEY (document, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX file_blob ON file (blob);

CREATE TABLE line (
    customer INTEGER NOT NULL,
    level INTEGER NOT NULL,
    weight REAL NOT NULL,
    turn INTEGER NOT NULL,
    stamp INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    head_seq INTEGER,
    head_ready_at INTEGER,
    head_cost REAL,
    filed INTEGER NOT NULL,
    place INTEGER NOT NULL,
    tie INTEGER NOT NULL,
    PRIMARY KEY (customer, level)
) STRICT, WITHOUT ROWID;

CREATE INDEX line_place ON line (level, place, tie) WHERE filed = 1;
CREATE INDEX line_age ON line (level, head_ready_at, head_seq) WHERE filed = 1;

CREATE TABLE limits (
    customer INTEGER PRIMARY KEY,
    settings TEXT NOT NULL,
    running INTEGER NOT NULL,
    whole_at INTEGER NOT NULL,
    rate_closed_until INTEGER
) STRICT;

CREATE INDEX limits_rate ON limits (rate_closed_until) WHERE rate_closed_until IS NOT NULL;

CREATE TABLE line_change (
    number INTEGER PRIMARY KEY,
    customer INTEGER NOT NULL,
    kind TEXT NOT NULL,
    level INTEGER,
    n INTEGER,
    seq INTEGER,
    ready_at INTEGER,
    cost REAL,
    settings TEXT
) STRICT;

CREATE TABLE key (
    customer INTEGER NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    at INTEGER NOT NULL,
    answer TEXT NOT NULL,
    PRIMARY KEY (customer, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX key_at ON key (at);

CREATE TABLE event (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    customer TEXT,
    documents BLOB NOT NULL,
    operator TEXT,
    why TEXT,
    detail TEXT
) STRICT;

CREATE TABLE worker (
    name TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL,
    report TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE VIEW whole AS
SELECT
    document.id, customer.name AS customer, document.seq, document.level, document.count, document.state,
    document.submitted_at, document.ready_at, CASE document.state WHEN 'delayed' THEN document.due_at END AS due_at,
    document.started_at, document.finished_at, document.attempt, document.fence, document.worker,
    CASE document.state WHEN 'running' THEN document.due_at END AS lease_until, document.line, document.error,
    document.name, document.uri, document.blob, document.sha256, document.size, document.media_type, document.batch,
    document.metadata, document.cost, document.delay, document.start_by, document.max_attempts,
    document.pages, document.customer AS owner
FROM document JOIN customer ON customer.id = document.customer;

CREATE VIEW deadline AS
SELECT
    (SELECT min(start_by) FROM document INDEXED BY document_start_by
     WHERE start_by IS NOT NULL AND attempt = 0 AND state IN ('waiting', 'delayed')) AS start_by,
    (SELECT min(due_at) FROM document INDEXED BY document_due
     WHERE state = 'running' AND due_at IS NOT NULL) AS lease,
    (SELECT min(due_at) FROM document INDEXED BY document_due
     WHERE state = 'delayed' AND due_at IS NOT NULL) AS due,
    (SELECT min(rate_closed_until) FROM limits WHERE rate_closed_until IS NOT NULL) AS rate;
