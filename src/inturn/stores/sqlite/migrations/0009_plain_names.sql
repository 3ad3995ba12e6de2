-- Tables, columns and indexes get the names that the code uses. This is the map of a queue in SQLite since then.
--
--   queue_state      one row: the last numbers given, whether the queue is paused, and the scheduler's state (JSON: small,
--                    always read and written whole). `version` counts the transactions that wrote lanes
--   policy           every version of the policy
--   customer         the counter, and the settings as operators last set them
--   document         one row a document. `due_at` is the end of a running document's lease, or of a delayed one's delay.
--                    `last_outcome` is the outcome recorded last under its fence. `result` comes last in its row, so that
--                    reading the other columns does not touch it
--   file             the files of results, by their document's seq; only done documents have any
--   lane             one customer's waiting documents of one level. `sort_key` and `sort_tie` sort open lanes in the order
--                    that queue_state.ordered names: turn and stamp, or the seq of the head. Before `scan_from` no document
--                    waits but those in `requeued`; null: none waits but those. Written by claims alone
--   limits           settings, running documents and rate of customers with settings of their own, as lanes count them.
--                    `tat` is the theoretical arrival time of GCRA. Written by claims alone
--   lane_log         changes to lanes since the last claim, which applies them in order. `n` is the change of a lane's
--                    length wherever `level` is set
--   requeued         waiting documents that came back into a lane: released, due again, lost by their worker, expedited.
--                    The scan of the lane may have passed their seq. Written with their document's state
--   idempotency_key  keys of submits and checks with the first answer
--   event            the event log
--   worker           the last report of each worker
--   api_key          keys for the servers of the queue, with the hash of each, never its text
--   attempt          earlier attempts at documents, with their errors
--
-- Times are microseconds, ids of documents the 16 bytes of their UUID. Partial indexes hold only documents in the state
-- they serve, so that the cost of a claim does not depend on how many documents wait or have ended. Every index of
-- documents ends with their seq without naming it: the seq is the table's rowid.
--
-- A process of an older version that has the file open asks for the old names. Those it asks for first are views now:
-- reading one fails with the text of `upgraded` as the message, since SQLite can raise no text of ours in a query.

DROP VIEW whole;
DROP VIEW document_view;
DROP INDEX document_line;
DROP INDEX line_place;
DROP INDEX line_age;
DROP INDEX key_at;
DROP INDEX event_by_hand;
DROP INDEX event_by_hand_of;

ALTER TABLE queue RENAME TO queue_state;
ALTER TABLE queue_state RENAME COLUMN turns TO scheduler_state;
ALTER TABLE document RENAME COLUMN line TO lane;
ALTER TABLE document RENAME COLUMN settled TO last_outcome;
ALTER TABLE line RENAME TO lane;
ALTER TABLE lane RENAME COLUMN filed TO scheduled;
ALTER TABLE lane RENAME COLUMN front TO scan_from;
ALTER TABLE lane RENAME COLUMN place TO sort_key;
ALTER TABLE lane RENAME COLUMN tie TO sort_tie;
ALTER TABLE limits RENAME COLUMN whole_at TO tat;
ALTER TABLE line_change RENAME TO lane_log;
ALTER TABLE returned RENAME TO requeued;
ALTER TABLE requeued RENAME COLUMN line TO lane;
ALTER TABLE key RENAME TO idempotency_key;
ALTER TABLE access_key RENAME TO api_key;

UPDATE lane_log SET kind = 'requeued' WHERE kind = 'returned';

CREATE INDEX document_lane ON document (customer, lane);
CREATE INDEX lane_sort ON lane (level, sort_key, sort_tie) WHERE scheduled = 1;
CREATE INDEX lane_age ON lane (level, head_ready_at, head_seq) WHERE scheduled = 1;
CREATE INDEX idempotency_key_at ON idempotency_key (at);
CREATE INDEX event_operator ON event (number) WHERE operator IS NOT NULL;
CREATE INDEX event_customer_operator ON event (customer, number) WHERE operator IS NOT NULL;

CREATE VIEW document_view AS
SELECT
    document.id, customer.name AS customer, document.seq, document.level, document.count, document.state,
    document.submitted_at, document.ready_at, CASE document.state WHEN 'delayed' THEN document.due_at END AS due_at,
    document.started_at, document.finished_at, document.attempt, document.fence, document.worker,
    CASE document.state WHEN 'running' THEN document.due_at END AS lease_until, document.lane, document.error,
    document.name, document.uri, document.blob, document.sha256, document.size, document.media_type, document.batch,
    document.metadata, document.cost, document.delay, document.start_by, document.max_attempts, document.pages,
    CASE WHEN document.began_at >= document.started_at THEN document.began_at END AS began_at,
    CASE WHEN document.began_at >= document.started_at THEN document.worked END AS worked,
    document.customer AS owner
FROM document JOIN customer ON customer.id = document.customer;

CREATE VIEW upgraded AS
SELECT 1 AS one WHERE json_extract(
    '{}', 'this queue was upgraded by a newer version of Inturn: stop this process and start it again with that version'
) IS NULL;

CREATE VIEW queue AS
SELECT
    one, one AS seq, one AS fence, one AS event, one AS policy, one AS ordered, one AS turns, one AS version,
    one AS unsaved, one AS maintenance, one AS paused_by, one AS paused_why
FROM upgraded;
CREATE TRIGGER queue_update INSTEAD OF UPDATE ON queue BEGIN SELECT one FROM upgraded; END;

CREATE VIEW line AS
SELECT
    one AS customer, one AS level, one AS weight, one AS turn, one AS stamp, one AS waiting, one AS head_seq,
    one AS head_ready_at, one AS head_cost, one AS filed, one AS front, one AS out_of_turn_at, one AS place, one AS tie
FROM upgraded;

CREATE VIEW line_change AS
SELECT
    one AS number, one AS customer, one AS kind, one AS level, one AS n, one AS seq, one AS ready_at, one AS cost,
    one AS settings
FROM upgraded;

CREATE VIEW line_length AS SELECT one AS customer, one AS level, one AS n FROM upgraded;

CREATE VIEW whole AS
SELECT
    one AS id, one AS seq, one AS level, one AS state, one AS line, one AS name, one AS batch, one AS owner FROM upgraded;

CREATE VIEW returned AS
SELECT one AS customer, one AS line, one AS seq, one AS ready_at, one AS cost FROM upgraded;

CREATE VIEW key AS
SELECT one AS customer, one AS key, one AS fingerprint, one AS at, one AS answer FROM upgraded;

CREATE VIEW access_key AS
SELECT
    one AS id, one AS sha256, one AS scope, one AS name, one AS customer, one AS made_at, one AS expires_at,
    one AS used_at, one AS replaces
FROM upgraded;
