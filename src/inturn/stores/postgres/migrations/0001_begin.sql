-- The map of a queue in PostgreSQL: one schema a queue.
--
--   queue        one row: the policy in force, and whether the queue is paused
--   turns        one row, written by claims alone: where the turns are and what is due at the earliest (JSON: small,
--                always read and written whole), the last fence given and the last one reserved, and `folded`: the
--                snapshot of the last fold. `version` counts the transactions that wrote lines: each puts a new row in
--                the place of the old one, and the newest is found at the top of its key, however many dead rows an
--                old transaction keeps below it
--   claiming     no rows. Who locks it EXCLUSIVE claims: claims of a queue go one by one. LOCK TABLE takes no snapshot,
--                so that a claim, which is REPEATABLE READ, sees one state of everything: the one it found once its
--                turn had come. Nobody else writes lines
--   capping      no rows. Whoever ends a run locks it ROW SHARE before it asks whether the customer has a cap; whoever
--                changes a customer's settings locks it EXCLUSIVE, so that no end of a run is in flight meanwhile
--   alive        unlogged: empty after a crash, a failover, a restore. A claim that finds it so goes on behind the last
--                fence reserved: fences given by commits that were lost are not given again
--   policy       every version of the policy
--   customer     the counter, and the settings as operators last set them. Every call that takes in documents locks
--                its row: seqs and line changes of one customer are numbered in the order in which they happened
--   document     one row a document: the truth, and what everybody locks. Starts, heartbeats and ends change no column
--                that is in an index, so that the new row stays on its page (HOT). A result comes last in its row
--   returned     the documents that came back into a line: see 0005_fronts.sql
--   running      the documents that run, by `look_at`, which is never after `lease_until`: when to look whether the lease
--                was lost
--   ended        the documents that have ended, by when. These three are written with their document's state, always in
--                the same transaction, and can be made anew from `document` (`file_documents`)
--   file         the files of results, by their document's seq: only done documents have any, and their seq stays
--   line         where each line stands; `place` and `tie` sort it for the order that turns.ordered names (turn and
--                stamp, or the head's seq). Written by claims alone: a new row in the place of the old one, as in `turns`;
--                `version` is that of the claim
--   limits       settings, running documents and rate of customers that have settings of their own, as the lines know
--                them. Written by claims alone
--   line_change  what submits, outcomes and operators did to lines since the last claim, which folds it in, in the order
--                of `number`. `xid` finds what turns.folded did not see yet, however many dead rows lie around it
--   news         events that have no number yet: a row tells what happened to these documents of these customers, and
--                becomes one event for each customer. Who reads events gives out the numbers first, under the lock of
--                `numbering`: transactions commit in another order than they begin
--   event        what happened
--   key          idempotency keys with the first answer
--   worker       the last report of each worker
--   attempt      earlier attempts at documents, with their errors: see 0004_attempts.sql
--
-- Times are microseconds. A claim costs the same whatever the number of documents that wait or have ended. Tables that change all the time are vacuumed
-- after a number of changes, not after a share of their rows.

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
