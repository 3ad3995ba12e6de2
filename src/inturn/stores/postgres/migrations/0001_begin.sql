-- The first tables. The map of all tables, under their names of today, is in 0009_plain_names.sql.

CREATE TABLE migration (
    number int PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE queue (
    one int PRIMARY KEY CHECK (one = 1),
    policy bigint NOT NULL,
    paused_by text,
    paused_why text
);

CREATE TABLE turns (
    version bigint PRIMARY KEY,
    ordered text NOT NULL,
    standing text NOT NULL,
    bounds text NOT NULL,
    fence bigint NOT NULL,
    reserved bigint NOT NULL,
    folded pg_snapshot NOT NULL DEFAULT '1:1:'
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE claiming ();
CREATE TABLE capping ();
CREATE UNLOGGED TABLE alive (one int PRIMARY KEY CHECK (one = 1));

CREATE TABLE policy (
    number bigint PRIMARY KEY,
    settings text NOT NULL,
    at bigint NOT NULL,
    operator text NOT NULL,
    why text NOT NULL
);

CREATE TABLE customer (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    lower_name text COLLATE "C",
    count bigint,
    updated_at bigint,
    settings text,
    paused boolean NOT NULL DEFAULT false,
    capped boolean NOT NULL DEFAULT false,
    keeps boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE SEQUENCE document_seq;

CREATE TABLE document (
    seq bigint PRIMARY KEY,
    id uuid NOT NULL,
    customer bigint NOT NULL,
    count bigint NOT NULL,
    cost double precision NOT NULL,
    submitted_at bigint NOT NULL,
    ready_at bigint NOT NULL,
    due_at bigint,
    look_at bigint,
    lease_until bigint,
    start_by bigint,
    started_at bigint,
    finished_at bigint,
    fence bigint,
    size bigint,
    delay bigint NOT NULL,
    pages bigint,
    level int NOT NULL,
    line int NOT NULL,
    attempt int NOT NULL,
    max_attempts int NOT NULL,
    state text COLLATE "C" NOT NULL,
    name text NOT NULL,
    lower_name text,
    worker text,
    settled text,
    error text,
    uri text,
    blob text COLLATE "C",
    sha256 text,
    media_type text,
    batch text COLLATE "C",
    metadata text,
    result text
) WITH (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000
);

CREATE UNIQUE INDEX document_id ON document (id);
CREATE INDEX document_customer ON document (customer, seq);
CREATE INDEX document_due ON document (due_at, seq) WHERE due_at IS NOT NULL;
CREATE INDEX document_start_by ON document (start_by, seq) WHERE start_by IS NOT NULL;
CREATE INDEX document_batch ON document (batch, seq) WHERE batch IS NOT NULL;
CREATE INDEX document_blob ON document (blob) WHERE blob IS NOT NULL;

CREATE TABLE waiting (
    customer bigint NOT NULL,
    line int NOT NULL,
    seq bigint NOT NULL,
    ready_at bigint NOT NULL,
    cost double precision NOT NULL,
    PRIMARY KEY (customer, line, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

CREATE TABLE running (
    look_at bigint NOT NULL,
    seq bigint NOT NULL,
    customer bigint NOT NULL,
    PRIMARY KEY (look_at, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE ended (
    finished_at bigint NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (finished_at, seq)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000
);

CREATE TABLE file (
    document bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    blob text COLLATE "C" NOT NULL,
    size bigint NOT NULL,
    sha256 text NOT NULL,
    media_type text,
    PRIMARY KEY (document, name)
);

CREATE INDEX file_blob ON file (blob);

CREATE TABLE line (
    customer bigint NOT NULL,
    level int NOT NULL,
    weight double precision NOT NULL,
    turn bigint NOT NULL,
    stamp bigint NOT NULL,
    waiting bigint NOT NULL,
    head_seq bigint,
    head_ready_at bigint,
    head_cost double precision,
    filed boolean NOT NULL,
    place bigint NOT NULL,
    tie bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (customer, level, version)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX line_place ON line (level, place, tie) WHERE filed;
CREATE INDEX line_age ON line (level, head_ready_at, head_seq) WHERE filed;
CREATE INDEX line_empty ON line (level, turn) WHERE waiting = 0;

CREATE TABLE limits (
    customer bigint PRIMARY KEY,
    settings text NOT NULL,
    running bigint NOT NULL,
    whole_at bigint NOT NULL,
    rate_closed_until bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX limits_rate ON limits (rate_closed_until) WHERE rate_closed_until IS NOT NULL;

CREATE TABLE line_change (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    number bigint GENERATED ALWAYS AS IDENTITY,
    customer bigint NOT NULL,
    level int,
    kind text NOT NULL,
    n bigint,
    seq bigint,
    ready_at bigint,
    cost double precision,
    settings text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX line_change_xid ON line_change (xid);

CREATE TABLE key (
    customer bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint text NOT NULL,
    at bigint NOT NULL,
    answer text NOT NULL,
    PRIMARY KEY (customer, key)
);

CREATE INDEX key_at ON key (at);

CREATE TABLE numbering (
    one int PRIMARY KEY CHECK (one = 1),
    last bigint NOT NULL,
    seen pg_snapshot NOT NULL DEFAULT '1:1:'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE news (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id bigint GENERATED ALWAYS AS IDENTITY,
    at bigint NOT NULL,
    kind text NOT NULL,
    customers text[] NOT NULL,
    documents uuid[] NOT NULL,
    operator text,
    why text,
    detail text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX news_xid ON news (xid);

CREATE TABLE event (
    number bigint PRIMARY KEY,
    at bigint NOT NULL,
    kind text NOT NULL,
    customer text,
    documents uuid[] NOT NULL,
    operator text,
    why text,
    detail text
);

CREATE TABLE worker (
    name text COLLATE "C" PRIMARY KEY,
    seen_at bigint NOT NULL,
    report text NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE VIEW whole AS
SELECT
    document.id, customer.name AS customer, document.seq, document.level, document.count, document.state,
    document.submitted_at, document.ready_at, document.due_at, document.started_at, document.finished_at,
    document.attempt, document.fence, document.worker, document.lease_until, document.line, document.error,
    document.name, document.uri, document.blob, document.sha256, document.size, document.media_type, document.batch,
    document.metadata, document.cost, document.delay, document.start_by, document.max_attempts,
    document.pages, document.customer AS owner, document.lower_name
FROM document JOIN customer ON customer.id = document.customer;
