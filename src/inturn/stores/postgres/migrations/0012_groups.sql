-- Groups inside a customer take turns (`inturn.policy.groups`).
--
--   document.group_name  the group; null: none
--   document.lane        10 * the number of its group + the level of its lane: 0 to 9 without a group, as before. So the
--                        index document_lane finds a group's documents, and `requeued` and `lane_log.level` name groups too
--   customer_group       the numbers of a customer's groups, from 1 on
--   group_number         the number of a group, new or known. The customer's row is locked by then
--   lane_group           the groups of lanes that have any: turn, length and head of each, and where the scan of its
--                        documents stands. Number 0: documents without a group. Written by claims alone
--   lane.group_turn      the virtual turn of its groups; null: it has none. A lane with groups has no `scan_from`
--   document_grouped     finds the documents of a customer that have a group
--
-- scheduler_state.scheduler is called `scheduler_json` now: a process of an older version, which knows no groups, is refused
-- at its next claim.

ALTER TABLE document ADD COLUMN group_name text;
ALTER TABLE lane ADD COLUMN group_turn bigint;
ALTER TABLE scheduler_state RENAME COLUMN scheduler TO scheduler_json;

CREATE TABLE customer_group (
    customer bigint NOT NULL,
    number int NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (customer, number),
    UNIQUE (customer, name)
);

CREATE FUNCTION group_number(of_customer bigint, of_name text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    known int;
BEGIN
    SELECT number INTO known FROM customer_group WHERE customer = of_customer AND name = of_name;
    IF known IS NULL THEN
        INSERT INTO customer_group (customer, number, name)
        SELECT of_customer, 1 + coalesce(max(number), 0), of_name FROM customer_group WHERE customer = of_customer
        RETURNING number INTO known;
    END IF;
    RETURN known;
END
$$;

CREATE TABLE lane_group (
    customer bigint NOT NULL,
    level int NOT NULL,
    number int NOT NULL,
    turn bigint NOT NULL,
    stamp bigint NOT NULL,
    waiting bigint NOT NULL,
    head_seq bigint,
    head_ready_at bigint,
    head_cost double precision,
    scan_from bigint,
    PRIMARY KEY (customer, level, number)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX lane_group_turn ON lane_group (customer, level, turn, stamp) WHERE waiting > 0;
CREATE INDEX lane_group_head ON lane_group (customer, level, head_seq) WHERE waiting > 0;
CREATE INDEX document_grouped ON document (customer, seq) WHERE lane > 9;

DROP VIEW document_view;
CREATE VIEW document_view AS
SELECT
    document.id, customer.name AS customer, document.seq, document.level, document.count, document.state,
    document.submitted_at, document.ready_at, document.due_at, document.started_at, document.finished_at,
    document.attempt, document.fence, document.worker, document.lease_until, document.lane, document.error,
    document.name, document.uri, document.blob, document.sha256, document.size, document.media_type, document.batch,
    document.metadata, document.cost, document.delay, document.start_by, document.max_attempts, document.pages,
    CASE WHEN document.began_at >= document.started_at THEN document.began_at END AS began_at,
    CASE WHEN document.began_at >= document.started_at THEN document.worked END AS worked,
    document.group_name, document.customer AS owner, document.lower_name
FROM document JOIN customer ON customer.id = document.customer;
