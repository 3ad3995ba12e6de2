-- Queries of the SQLite store that write, or that a write needs. Each is one statement, called by its name. Queries of the
-- same name in PostgreSQL do the same. The map of the tables is in migrations/0009_plain_names.sql.
--
--   the queue        queue .. use_policy          its row, its order of lanes, pause, policy
--   customers, keys  customer .. save_idempotency_key
--   submit           add_document, append_to_lane_log, add_event
--   claim            lane_log .. forget_all_requeued, limits, start_document: the lanes in turn, their next documents
--   due              deadlines .. set_term        start_by, leases, delays, rates, and terms set by a clock ahead
--   transitions      finish_document .. heartbeat one document changes its state
--   deletion         blobs_of .. forget_events    purge and prune
--   recount          waiting_counts .. capped_counts
--
-- INDEXED BY stands where the cost of a claim depends on it: the plan is then the same with statistics or without.
-- `state <> 'waiting'` and `coalesce(due_at, finished_at)` repeat the terms of the index document_clock, so that SQLite
-- sees that it serves.

-- name: queue
SELECT
    fence, event, policy, ordered, scheduler_state, paused_by, version, EXISTS (SELECT 1 FROM lane_log),
    EXISTS (SELECT 1 FROM requeued),
    next_due.start_by, next_due.lease, next_due.due, next_due.rate
FROM queue_state, next_due;

-- name: allocate_seqs
UPDATE queue_state SET seq = seq + :n RETURNING seq, policy;

-- name: save_claim
UPDATE queue_state SET fence = ?, event = ?, scheduler_state = ?, version = version + 1;

-- name: allocate_events
UPDATE queue_state SET event = event + :n RETURNING event;

-- name: order_lanes
UPDATE lane SET
    sort_key = CASE WHEN :fair THEN turn ELSE coalesce(head_seq, 0) END, sort_tie = CASE WHEN :fair THEN stamp ELSE 0 END;

-- name: set_lane_order
UPDATE queue_state SET ordered = :ordered;

-- name: pause
UPDATE queue_state SET paused_by = :by, paused_why = :why;

-- name: paused
SELECT paused_by, paused_why FROM queue_state WHERE paused_by IS NOT NULL;

-- name: policy
SELECT number, settings, at, operator, why FROM policy WHERE number = :number;

-- name: policies
SELECT number, settings, at, operator, why FROM policy ORDER BY number DESC;

-- name: policy_number
SELECT policy FROM queue_state;

-- name: add_policy
INSERT INTO policy (number, settings, at, operator, why) VALUES (:number, :settings, :at, :by, :why);

-- name: use_policy
UPDATE queue_state SET policy = :number;

-- name: customer
SELECT id, count, updated_at, settings FROM customer WHERE name = :name;

-- name: add_customer
INSERT INTO customer (name) VALUES (:name) RETURNING id;

-- name: customer_name
SELECT name FROM customer WHERE id = :id;

-- name: set_counter
UPDATE customer SET count = :count, updated_at = :updated_at WHERE id = :id;

-- name: set_settings
UPDATE customer SET settings = :settings, paused = :paused, capped = :capped, keeps = :keeps WHERE id = :id;

-- name: is_capped
SELECT capped FROM customer WHERE id = :id;

-- name: running_of
SELECT count(*) FROM document INDEXED BY document_clock
WHERE state = 'running' AND state <> 'waiting' AND +customer = :customer;

-- name: idempotency_key
SELECT fingerprint, at, answer FROM idempotency_key WHERE customer = :customer AND key = :key;

-- name: save_idempotency_key
INSERT OR REPLACE INTO idempotency_key (customer, key, fingerprint, at, answer)
VALUES (:customer, :key, :fingerprint, :at, :answer);

-- name: add_document
INSERT INTO document (
    seq, id, customer, level, lane, count, submitted_at, ready_at, metadata, cost, max_attempts, start_by, name, uri,
    blob, sha256, size, media_type, batch, pages, delay, attempt, state, due_at, delayed_at
) VALUES (
    :seq, :id, :owner, :level, :level, :count, :now, :now, :metadata, :cost, :max_attempts, :start_by, :name, :uri,
    :blob, :sha256, :size, :media_type, :batch, :pages, :delay, 0, iif(:delay, 'delayed', 'waiting'),
    iif(:delay, :now + :delay, NULL), iif(:delay, :now, NULL)
);

-- name: append_to_lane_log
INSERT INTO lane_log (customer, kind, level, n, seq, ready_at, cost, settings) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_event
INSERT INTO event (number, at, kind, customer, documents, operator, why, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: lane_log
SELECT customer, kind, level, n, seq, ready_at, cost, settings FROM lane_log ORDER BY number;

-- name: clear_lane_log
DELETE FROM lane_log;

-- name: anything_to_claim
SELECT paused_by IS NULL AND (EXISTS (SELECT 1 FROM lane_log) OR EXISTS (SELECT 1 FROM lane WHERE scheduled = 1))
FROM queue_state;

-- name: deadlines
SELECT start_by, lease, due, rate FROM next_due;

-- name: late_to_start
SELECT seq FROM document INDEXED BY document_start_by
WHERE start_by IS NOT NULL AND attempt = 0 AND state IN ('waiting', 'delayed') AND start_by <= :now
ORDER BY start_by, seq LIMIT :limit;

-- name: expired_leases
SELECT seq FROM document INDEXED BY document_clock
WHERE state = 'running' AND state <> 'waiting' AND coalesce(due_at, finished_at) <= :now
ORDER BY coalesce(due_at, finished_at), seq LIMIT :limit;

-- name: due_documents
SELECT seq FROM document INDEXED BY document_clock
WHERE state = 'delayed' AND state <> 'waiting' AND coalesce(due_at, finished_at) <= :now
ORDER BY coalesce(due_at, finished_at), seq LIMIT :limit;

-- name: due_rates
SELECT limits.customer FROM limits JOIN customer ON customer.id = limits.customer
WHERE rate_closed_until IS NOT NULL AND rate_closed_until <= :now ORDER BY rate_closed_until, name LIMIT :limit;

-- name: leases_ahead
SELECT seq, leased_at, due_at, doubted_at FROM document INDEXED BY document_clock
WHERE state = 'running' AND state <> 'waiting' AND leased_at > :now ORDER BY seq;

-- name: delays_ahead
SELECT seq, delayed_at, due_at, doubted_at FROM document INDEXED BY document_delayed
WHERE state = 'delayed' AND delayed_at > :now ORDER BY seq;

-- name: rates_ahead
SELECT customer, settings, tat FROM limits WHERE rate_closed_until > :now ORDER BY customer;

-- name: set_term
UPDATE document SET due_at = ?, doubted_at = ? WHERE seq = ?;

-- name: maintenance
SELECT maintenance FROM queue_state;

-- name: record_maintenance
UPDATE queue_state SET maintenance = :record;

-- name: count_ended_before
SELECT count(*) FROM document INDEXED BY document_clock
WHERE state = :state AND state <> 'waiting' AND coalesce(due_at, finished_at) < :before AND seq <= :up_to
    AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps);

-- name: count_ended_before_of
SELECT count(*) FROM document INDEXED BY document_lane
WHERE customer = :customer AND finished_at IS NOT NULL AND finished_at < :before AND seq <= :up_to;

-- name: lanes_of
SELECT customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from,
    out_of_turn_at, EXISTS (SELECT 1 FROM limits WHERE limits.customer = lane.customer)
FROM lane WHERE customer = :customer;

-- name: lane
SELECT customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from,
    out_of_turn_at, EXISTS (SELECT 1 FROM limits WHERE limits.customer = lane.customer)
FROM lane WHERE customer = :customer AND level = :level;

-- name: lowest_lanes
SELECT customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from,
    out_of_turn_at, EXISTS (SELECT 1 FROM limits WHERE limits.customer = lane.customer)
FROM lane INDEXED BY lane_sort
WHERE scheduled = 1 AND level = :level AND (sort_key, sort_tie) > (:after, :after_tie)
ORDER BY sort_key, sort_tie LIMIT :limit;

-- name: oldest_lanes
SELECT customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from,
    out_of_turn_at, EXISTS (SELECT 1 FROM limits WHERE limits.customer = lane.customer)
FROM lane INDEXED BY lane_age
WHERE scheduled = 1 AND level = :level AND (head_ready_at, head_seq) > (:after, :after_tie)
ORDER BY head_ready_at, head_seq LIMIT :limit;

-- name: oldest_rested_lanes
SELECT customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from,
    out_of_turn_at, EXISTS (SELECT 1 FROM limits WHERE limits.customer = lane.customer)
FROM lane INDEXED BY lane_age
WHERE scheduled = 1 AND level = :level AND (head_ready_at, head_seq) > (:after, :after_tie)
    AND (out_of_turn_at <= :rested_since OR out_of_turn_at > :now)
ORDER BY head_ready_at, head_seq LIMIT :limit;

-- name: save_lane
INSERT OR REPLACE INTO lane (
    customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from, out_of_turn_at,
    sort_key, sort_tie
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: forget_lane
DELETE FROM lane WHERE customer = ? AND level = ?;

-- name: empty_lanes
SELECT customer, level, turn FROM lane WHERE waiting = 0 AND out_of_turn_at <= :rested_since;

-- name: limits
SELECT settings, running, tat, rate_closed_until FROM limits WHERE customer = :customer;

-- name: save_limits
INSERT OR REPLACE INTO limits (customer, settings, running, tat, rate_closed_until) VALUES (?, ?, ?, ?, ?);

-- name: waiting_in_lane
SELECT seq, ready_at, cost FROM document INDEXED BY document_lane
WHERE customer = :customer AND lane = :level AND seq >= :first AND state = 'waiting' ORDER BY seq LIMIT :limit;

-- name: requeued_in_lane
SELECT requeued.seq, requeued.ready_at, requeued.cost
FROM requeued CROSS JOIN document ON document.seq = requeued.seq AND document.state = 'waiting'
WHERE requeued.customer = :customer AND requeued.lane = :level AND requeued.seq >= :first
ORDER BY requeued.seq LIMIT :limit;

-- name: add_requeued
INSERT OR REPLACE INTO requeued (customer, lane, seq, ready_at, cost) VALUES (?, ?, ?, ?, ?);

-- name: forget_requeued
DELETE FROM requeued WHERE customer = ? AND lane = ? AND seq = ?;

-- name: forget_all_requeued
DELETE FROM requeued;

-- name: requeue_all
INSERT INTO requeued (customer, lane, seq, ready_at, cost)
SELECT customer, lane, seq, ready_at, cost FROM document WHERE state = 'waiting';

-- name: start_document
UPDATE document SET
    state = 'running', attempt = attempt + 1, started_at = ?3, due_at = ?4, fence = ?5, worker = ?6, last_outcome = NULL,
    leased_at = ?3, doubted_at = NULL, began_at = NULL, worked = NULL
WHERE seq = ?1 AND state = 'waiting'
RETURNING
    id, ?2, seq, level, count, state, submitted_at, ready_at, NULL, started_at, finished_at, attempt, fence,
    worker, due_at, lane, error, name, uri, blob, sha256, size, media_type, batch, metadata, cost, delay, start_by,
    max_attempts, pages, began_at, worked, customer;

-- name: document_by_id
SELECT * FROM document_view WHERE id = :id;

-- name: finish_document
UPDATE document SET
    state = 'done', finished_at = ?3, due_at = NULL, worker = NULL, error = NULL, last_outcome = 'done', result = ?4,
    began_at = min(started_at + coalesce(?5, 0), max(started_at, ?3)),
    worked = max(0, min(coalesce(?6, ?3 - started_at), ?3 - started_at - coalesce(?5, 0)))
WHERE id = ?1 AND fence = ?2 AND state = 'running'
RETURNING id, fence, customer, (SELECT capped FROM customer WHERE customer.id = document.customer), seq;

-- name: add_file
INSERT INTO file (document, name, blob, size, sha256, media_type) VALUES (?, ?, ?, ?, ?, ?);

-- name: files
SELECT name, blob, size, sha256, media_type FROM file
WHERE document = (SELECT seq FROM document WHERE id = :id) ORDER BY name;

-- name: known_blob
SELECT EXISTS (SELECT 1 FROM document WHERE blob = :blob) OR EXISTS (SELECT 1 FROM file WHERE blob = :blob);

-- name: forget_files
DELETE FROM file WHERE document = ? RETURNING blob;

-- name: record_worker
INSERT OR REPLACE INTO worker (name, seen_at, report, at_work) VALUES (:name, :now, :report, :at_work);

-- name: forget_worker
DELETE FROM worker WHERE name = :name;

-- name: forget_silent_workers
DELETE FROM worker WHERE seen_at NOT BETWEEN :first AND :last;

-- name: workers
SELECT report, at_work, seen_at FROM worker ORDER BY name;

-- name: row
SELECT seq, customer, state, level, lane, attempt, max_attempts, fence, last_outcome, cost, start_by
FROM document WHERE id = :id;

-- name: row_by_seq
SELECT seq, customer, state, level, lane, attempt, max_attempts, fence, last_outcome, cost, start_by, id
FROM document WHERE seq = :seq;

-- name: requeue_document
UPDATE document SET
    state = 'waiting', ready_at = :now, due_at = NULL, worker = NULL, attempt = :attempt,
    last_outcome = :last_outcome
WHERE seq = :seq;

-- name: started_at
SELECT started_at FROM document WHERE seq = :seq;

-- name: record_work
UPDATE document SET began_at = ?, worked = ? WHERE seq = ?;

-- name: release_document
UPDATE document SET
    state = 'waiting', due_at = NULL, worker = NULL, attempt = attempt - 1, last_outcome = 'handed_back'
WHERE seq = :seq
RETURNING ready_at;

-- name: delay_document
UPDATE document SET
    state = 'delayed', due_at = :due_at, worker = NULL, error = :error, last_outcome = 'failed', delayed_at = :now,
    doubted_at = NULL
WHERE seq = :seq;

-- name: end_document
UPDATE document SET
    state = :state, finished_at = :now, due_at = NULL, worker = NULL, error = :error,
    last_outcome = :last_outcome
WHERE seq = :seq;

-- name: cancel_document
UPDATE document SET state = 'cancelled', finished_at = :now, due_at = NULL, worker = NULL
WHERE seq = :seq;

-- name: retry_document
UPDATE document SET
    seq = :new, level = :level, lane = :level, count = :count, state = 'waiting', ready_at = :now, attempt = 0,
    start_by = NULL, due_at = NULL, started_at = NULL, finished_at = NULL, error = NULL, last_outcome = NULL,
    began_at = NULL, worked = NULL
WHERE seq = :seq;

-- name: expedite_document
UPDATE document SET
    lane = 0, due_at = NULL, state = 'waiting',
    ready_at = CASE state WHEN 'delayed' THEN :now ELSE ready_at END
WHERE seq = :seq
RETURNING ready_at;

-- name: heartbeat
UPDATE document SET due_at = :now + :lease, leased_at = :now, doubted_at = NULL
WHERE id = :id AND fence = :fence AND state = 'running' RETURNING 1;

-- name: blobs_of
SELECT blob FROM document WHERE customer = :customer AND blob IS NOT NULL
UNION ALL
SELECT file.blob FROM document JOIN file ON file.document = document.seq WHERE document.customer = :customer;

-- name: purge_files
DELETE FROM file WHERE document IN (SELECT seq FROM document WHERE customer = :customer);

-- name: purge_documents
DELETE FROM document WHERE customer = :customer;

-- name: purge_requeued
DELETE FROM requeued WHERE customer = :customer;

-- name: purge_idempotency_keys
DELETE FROM idempotency_key WHERE customer = :customer;

-- name: waiting_of
SELECT lane, count(*) FROM document WHERE customer = :customer AND state = 'waiting' GROUP BY lane ORDER BY lane;

-- name: ended_before
SELECT seq, blob, finished_at FROM document INDEXED BY document_clock
WHERE state = :state AND state <> 'waiting' AND coalesce(due_at, finished_at) < :before AND seq <= :up_to
    AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps)
ORDER BY coalesce(due_at, finished_at), seq LIMIT :limit;

-- name: ended_before_of
SELECT seq, blob FROM document INDEXED BY document_lane
WHERE customer = :customer AND finished_at IS NOT NULL AND finished_at < :before AND seq <= :up_to
ORDER BY finished_at, seq LIMIT :limit;

-- name: forget_document
DELETE FROM document WHERE seq = ?;

-- name: forget_idempotency_keys
DELETE FROM idempotency_key WHERE at < :before;

-- name: forget_events
DELETE FROM event WHERE number IN (
    SELECT number FROM event WHERE operator IS NULL AND at < :before ORDER BY number LIMIT :limit
);

-- name: waiting_counts
SELECT document.customer, document.lane, count(*), min(seq) FROM document WHERE state = 'waiting' GROUP BY 1, 2;

-- name: reachable_counts
SELECT customer, lane, count(*) FROM (
    SELECT document.customer, document.lane, seq
    FROM document JOIN lane ON lane.customer = document.customer AND lane.level = document.lane
    WHERE state = 'waiting' AND seq >= scan_from
    UNION
    SELECT customer, lane, seq FROM requeued
)
GROUP BY 1, 2;

-- name: lane_counts
SELECT customer, level, waiting FROM lane;

-- name: capped_counts
SELECT limits.customer, limits.running,
    (SELECT count(*) FROM document INDEXED BY document_clock
     WHERE state = 'running' AND state <> 'waiting' AND +document.customer = limits.customer)
FROM limits JOIN customer ON customer.id = limits.customer WHERE customer.capped = 1;
