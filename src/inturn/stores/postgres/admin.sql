-- Policy, workers' reports, deletion, and the recount of counters. More of it is in sql/shared.sql.

-- name: lock_policy
SELECT policy FROM queue_state FOR UPDATE;

-- name: running_counts
SELECT customer, count(*) FROM running GROUP BY customer;

-- name: count_ended_before
SELECT count(*) FROM ended JOIN document ON document.seq = ended.seq
WHERE ended.finished_at < %(before)s AND ended.seq <= %(up_to)s
    AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps)
    AND NOT EXISTS (SELECT 1 FROM document AS whole WHERE whole.id = document.parent AND coalesce(whole.finished_at >= %(before)s, true));

-- name: count_ended_before_of
SELECT count(*) FROM document WHERE customer = %(customer)s AND finished_at IS NOT NULL AND finished_at < %(before)s
    AND seq <= %(up_to)s
    AND NOT EXISTS (SELECT 1 FROM document AS whole WHERE whole.id = document.parent AND coalesce(whole.finished_at >= %(before)s, true));

-- name: ended_before
SELECT document.seq, blob FROM ended JOIN document ON document.seq = ended.seq
WHERE ended.finished_at < %(before)s AND ended.seq <= %(up_to)s
    AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps)
    AND NOT EXISTS (SELECT 1 FROM document AS whole WHERE whole.id = document.parent AND coalesce(whole.finished_at >= %(before)s, true))
ORDER BY ended.finished_at, ended.seq LIMIT %(limit)s FOR UPDATE OF document SKIP LOCKED;

-- name: ended_before_of
SELECT seq, blob FROM document
WHERE customer = %(customer)s AND finished_at IS NOT NULL AND finished_at < %(before)s
    AND seq <= %(up_to)s
    AND NOT EXISTS (SELECT 1 FROM document AS whole WHERE whole.id = document.parent AND coalesce(whole.finished_at >= %(before)s, true))
ORDER BY finished_at, seq LIMIT %(limit)s FOR UPDATE SKIP LOCKED;

-- name: forget_documents
WITH removed AS (DELETE FROM document WHERE seq = ANY (%(seq)s::bigint[]) RETURNING seq, finished_at)
DELETE FROM ended USING removed WHERE ended.finished_at = removed.finished_at AND ended.seq = removed.seq;

-- name: forget_files
DELETE FROM file WHERE document = ANY (%(seq)s::bigint[]) RETURNING document, blob;

-- name: lock_unended_documents
SELECT seq FROM document WHERE customer = %(customer)s AND finished_at IS NULL FOR UPDATE;

-- name: purge_files
DELETE FROM file USING document WHERE file.document = document.seq AND document.customer = %(customer)s;

-- name: purge_documents
WITH removed AS (
    DELETE FROM document WHERE customer = %(customer)s RETURNING state, lane, seq, lease_check_at, finished_at
), requeued_removed AS (
    DELETE FROM requeued WHERE customer = %(customer)s
), running_removed AS (
    DELETE FROM running USING removed WHERE running.lease_check_at = removed.lease_check_at AND running.seq = removed.seq
), ended_removed AS (
    DELETE FROM ended USING removed WHERE ended.finished_at = removed.finished_at AND ended.seq = removed.seq
)
SELECT state, lane, count(*) FROM removed GROUP BY state, lane;

-- name: waiting_counts
SELECT customer, lane, count(*), min(seq) FROM document WHERE state = 'waiting' GROUP BY 1, 2;

-- name: reachable_counts
SELECT customer, lane, count(*) FROM (
    SELECT document.customer, document.lane, seq
    FROM document JOIN lane ON lane.customer = document.customer AND lane.level = document.lane
    WHERE state = 'waiting' AND seq >= scan_from
    UNION
    SELECT document.customer, document.lane, seq
    FROM document JOIN lane_group
        ON lane_group.customer = document.customer AND lane_group.level = mod(document.lane, 1000)
            AND lane_group.number = document.lane / 1000
    WHERE state = 'waiting' AND seq >= scan_from
    UNION
    SELECT customer, lane, seq FROM requeued
) AS reachable
GROUP BY 1, 2;

-- name: capped_counts
SELECT limits.customer, limits.running, (SELECT count(*) FROM running WHERE running.customer = limits.customer)
FROM limits JOIN customer ON customer.id = limits.customer WHERE customer.capped;

-- name: in_flight_counts
SELECT customer, queue, sum(stored)::bigint, sum(counted)::bigint FROM (
    SELECT customer, queue, in_flight AS stored, 0 AS counted FROM queue_work
    UNION ALL
    SELECT document.customer, (mod(lane, 1000) / 10), 0, 1 FROM running JOIN document ON document.seq = running.seq WHERE charged IS NOT NULL
) AS counts
GROUP BY customer, queue HAVING sum(stored) <> sum(counted);

-- name: rebuild_derived_tables
DELETE FROM requeued; DELETE FROM running; DELETE FROM ended;
INSERT INTO requeued (customer, lane, seq, ready_at, cost)
SELECT customer, lane, seq, ready_at, cost FROM document WHERE state = 'waiting';
INSERT INTO running (lease_check_at, seq, customer)
SELECT lease_check_at, seq, customer FROM document WHERE state = 'running';
INSERT INTO ended (finished_at, seq, failed)
SELECT finished_at, seq, state = 'failed' FROM document WHERE finished_at IS NOT NULL;
UPDATE document SET unended_parent = CASE WHEN finished_at IS NULL THEN parent END WHERE parent IS NOT NULL;
