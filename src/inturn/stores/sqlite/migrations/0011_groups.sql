-- Groups inside a customer take turns (`inturn.policy.groups`).
--
--   document.group_name  the group; null: none
--   document.lane        10 * the number of its group + the level of its lane: 0 to 9 without a group, as before. So the
--                        index document_lane finds a group's documents, and `requeued` and `lane_log.level` name groups too
--   customer_group       the numbers of a customer's groups, from 1 on
--   lane_group           the groups of lanes that have any: turn, length and head of each, and where the scan of its
--                        documents stands. Number 0: documents without a group. Written by claims alone
--   lane.group_turn      the virtual turn of its groups; null: it has none. A lane with groups has no `scan_from`
--   document_grouped     finds the documents of a customer that have a group
--
-- The view `deadline` is called `deadlines` now: a process of an older version, which knows no groups, is refused at its
-- next claim.

ALTER TABLE document ADD COLUMN group_name TEXT;
ALTER TABLE lane ADD COLUMN group_turn INTEGER;

CREATE TABLE customer_group (
    customer INTEGER NOT NULL,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (customer, number),
    UNIQUE (customer, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE lane_group (
    customer INTEGER NOT NULL,
    level INTEGER NOT NULL,
    number INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    stamp INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    head_seq INTEGER,
    head_ready_at INTEGER,
    head_cost REAL,
    scan_from INTEGER,
    PRIMARY KEY (customer, level, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX lane_group_turn ON lane_group (customer, level, turn, stamp) WHERE waiting > 0;
CREATE INDEX lane_group_head ON lane_group (customer, level, head_seq) WHERE waiting > 0;
CREATE INDEX document_grouped ON document (customer) WHERE lane > 9;

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
    document.group_name, document.customer AS owner
FROM document JOIN customer ON customer.id = document.customer;

DROP VIEW deadline;
CREATE VIEW deadlines AS
SELECT
    (SELECT min(start_by) FROM document INDEXED BY document_start_by
     WHERE start_by IS NOT NULL AND attempt = 0 AND state IN ('waiting', 'delayed')) AS start_by,
    (SELECT min(coalesce(due_at, finished_at)) FROM document INDEXED BY document_clock
     WHERE state = 'running' AND state <> 'waiting') AS lease,
    (SELECT min(coalesce(due_at, finished_at)) FROM document INDEXED BY document_clock
     WHERE state = 'delayed' AND state <> 'waiting') AS due,
    (SELECT min(rate_closed_until) FROM limits WHERE rate_closed_until IS NOT NULL) AS rate;
CREATE VIEW deadline AS
SELECT one AS start_by, one AS lease, one AS due, one AS rate FROM upgraded;
