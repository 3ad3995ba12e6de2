-- Several queues in one store.
--
--   named_queue          the queues: number 0 is `default`; a queue is made with its first document, and stays
--   document.queue       the name of its queue
--   document.lane        1,000 * the number of its group + 10 * the number of its queue + the level of its lane; the last two
--                        are its track. `requeued.lane` and `lane_log.level` have the same number
--   lane.level           the track of the lane: 0 to 9 in the queue `default`, as before; `lane_group.level` too
--   queue_scheduler      the scheduler's state of the other queues; that of the first one stays in queue_state
--   queue_work           was customer_work: what a claim knows of a customer's work, for each queue now
--   worker.queues        the queues that a worker serves, as JSON; null: `default`
--
-- A process of an older version, which knows no queues, finds no customer_work and is refused at its next claim.

CREATE TABLE named_queue (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    description TEXT,
    weight REAL NOT NULL DEFAULT 1,
    paused_by TEXT,
    paused_why TEXT
) STRICT;
INSERT INTO named_queue (number, name) VALUES (0, 'default');

CREATE TABLE queue_scheduler (
    queue INTEGER PRIMARY KEY,
    state TEXT NOT NULL
) STRICT;

CREATE TABLE queue_work (
    customer INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    unit_time INTEGER,
    in_flight INTEGER NOT NULL,
    PRIMARY KEY (customer, queue)
) STRICT, WITHOUT ROWID;
INSERT INTO queue_work (customer, queue, unit_time, in_flight) SELECT customer, 0, unit_time, in_flight FROM customer_work;
DROP TABLE customer_work;

ALTER TABLE worker ADD COLUMN queues TEXT;
ALTER TABLE document ADD COLUMN queue TEXT NOT NULL DEFAULT 'default';
UPDATE document SET lane = lane % 10 + 1000 * (lane / 10) WHERE lane > 9;
UPDATE requeued SET lane = lane % 10 + 1000 * (lane / 10) WHERE lane > 9;
UPDATE lane_log SET level = level % 10 + 1000 * (level / 10) WHERE level > 9;

DROP VIEW document_view;
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
    document.group_name, document.queue, document.customer AS owner
FROM document JOIN customer ON customer.id = document.customer;
