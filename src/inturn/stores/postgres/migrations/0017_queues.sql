-- Several queues in one store.
--
--   named_queue          the queues: number 0 is `default`; a queue is made with its first document, and stays
--   queue_number         the number of a queue, new or known
--   document.queue       the name of its queue
--   document.lane        1,000 * the number of its group + 10 * the number of its queue + the level of its lane; the last two
--                        are its track. `requeued.lane` and `lane_log.level` have the same number
--   lane.level           the track of the lane: 0 to 9 in the queue `default`, as before; `lane_group.level` too
--   queue_scheduler      the scheduler's state of the other queues; that of the first one stays in scheduler_state
--   queue_work           was customer_work: what a claim knows of a customer's work, for each queue now
--   claim_request.queues the queues that a claim which waits asks for
--   worker.queues        the queues that a worker serves, as JSON; null: `default`
--
-- A process of an older version, which knows no queues, finds no customer_work and is refused at its next claim.

CREATE TABLE named_queue (
    number int PRIMARY KEY,
    name text NOT NULL UNIQUE,
    description text,
    weight double precision NOT NULL DEFAULT 1,
    paused_by text,
    paused_why text
);
INSERT INTO named_queue (number, name) VALUES (0, 'default');

CREATE FUNCTION queue_number(of_name text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    known int;
BEGIN
    IF of_name = 'default' THEN
        RETURN 0;
    END IF;
    SELECT number INTO known FROM named_queue WHERE name = of_name;
    IF known IS NULL THEN
        LOCK TABLE named_queue IN SHARE ROW EXCLUSIVE MODE;
        INSERT INTO named_queue (number, name) SELECT 1 + max(number), of_name FROM named_queue
        ON CONFLICT (name) DO UPDATE SET name = excluded.name
        RETURNING number INTO known;
        IF known >= 100 THEN
            RAISE EXCEPTION 'too many queues' USING ERRCODE = 'program_limit_exceeded';
        END IF;
    END IF;
    RETURN known;
END
$$;

CREATE TABLE queue_scheduler (
    queue int PRIMARY KEY,
    state text NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE queue_work (
    customer bigint NOT NULL,
    queue int NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    unit_time bigint,
    in_flight bigint NOT NULL,
    PRIMARY KEY (customer, queue, version)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO queue_work (customer, queue, version, unit_time, in_flight)
SELECT customer, 0, version, unit_time, in_flight FROM customer_work;
DROP TABLE customer_work;

DROP TYPE work_row, replaced_work;
CREATE TYPE work_row AS (customer bigint, queue int, unit_time bigint, in_flight bigint);
CREATE TYPE replaced_work AS (customer bigint, queue int, version bigint);

ALTER TABLE worker ADD COLUMN queues text;
ALTER TABLE document ADD COLUMN queue text NOT NULL DEFAULT 'default';
UPDATE document SET lane = mod(lane, 10) + 1000 * (lane / 10) WHERE lane > 9;
UPDATE requeued SET lane = mod(lane, 10) + 1000 * (lane / 10) WHERE lane > 9;
UPDATE lane_log SET level = mod(level, 10) + 1000 * (level / 10) WHERE level > 9;

ALTER TABLE claim_request ADD COLUMN queues text[] NOT NULL DEFAULT '{default}';
DROP PROCEDURE take_claim_turn;
CREATE PROCEDURE take_claim_turn(
    worker text, max_documents bigint, lease bigint, queues text[], now bigint, ticket bigint, INOUT has_turn boolean
) LANGUAGE plpgsql AS $$
DECLARE
    turn CONSTANT bigint := 'claim_lock'::regclass::oid::bigint;
BEGIN
    has_turn := pg_try_advisory_lock(turn);
    IF has_turn THEN
        RETURN;
    END IF;
    INSERT INTO claim_request AS request (pid, ticket, worker, max_documents, lease, queues, now, asked_at)
    VALUES (pg_backend_pid(), ticket, worker, max_documents, lease, queues, now, clock_timestamp())
    ON CONFLICT (pid) DO UPDATE SET
        ticket = excluded.ticket, worker = excluded.worker, max_documents = excluded.max_documents, lease = excluded.lease,
        queues = excluded.queues, now = excluded.now, asked_at = excluded.asked_at, answer = NULL;
    COMMIT;
    PERFORM pg_advisory_lock(turn);
    -- A claim that is alone takes no turn, and may be answering this one now: then the update waits for it, and finds the
    -- answer.
    UPDATE claim_request SET answer = '{}' WHERE pid = pg_backend_pid() AND answer IS NULL;
    has_turn := FOUND;
    IF NOT has_turn THEN
        PERFORM pg_advisory_unlock(turn);
    END IF;
END
$$;

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
    document.group_name, document.queue, document.customer AS owner, document.lower_name
FROM document JOIN customer ON customer.id = document.customer;
