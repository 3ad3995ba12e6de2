-- The queries of the SQLite store, by name; lists and counts are in reading.sql, the map of the tables is in
-- migrations/0001_begin.sql.
-- INDEXED BY stands where a claim's cost depends on it: the plan is then the same with statistics or without. `state <>
-- 'waiting'` and `coalesce(due_at, finished_at)` stand as document_clock has them, so that SQLite sees that it serves.

-- name: queue
SELECT
    fence, event, policy, ordered, turns, paused_by, version, EXISTS (SELECT 1 FROM line_change),
    EXISTS (SELECT 1 FROM returned),
    next_due.start_by, next_due.lease, next_due.due, next_due.rate
FROM queue, next_due;

-- name: turns
SELECT turns FROM queue;

-- name: give_seqs
UPDATE queue SET seq = seq + :n RETURNING seq, policy;

-- name: save_claim
UPDATE queue SET fence = ?, event = ?, turns = ?, version = version + 1;

-- name: give_events
UPDATE queue SET event = event + :n RETURNING event;

-- name: order_lines
UPDATE line SET
    place = CASE WHEN :fair THEN turn ELSE coalesce(head_seq, 0) END, tie = CASE WHEN :fair THEN stamp ELSE 0 END;

-- name: ordered
UPDATE queue SET ordered = :ordered;

-- name: pause
UPDATE queue SET paused_by = :by, paused_why = :why;

-- name: paused
SELECT paused_by, paused_why FROM queue WHERE paused_by IS NOT NULL;

-- name: policy
SELECT number, settings, at, operator, why FROM policy WHERE number = :number;

-- name: policies
SELECT number, settings, at, operator, why FROM policy ORDER BY number DESC;

-- name: policy_number
SELECT policy FROM queue;

-- name: add_policy
INSERT INTO policy (number, settings, at, operator, why) VALUES (:number, :settings, :at, :by, :why);

-- name: use_policy
UPDATE queue SET policy = :number;

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

-- name: key
SELECT fingerprint, at, answer FROM key WHERE customer = :customer AND key = :key;

-- name: keep_key
INSERT OR REPLACE INTO key (customer, key, fingerprint, at, answer) VALUES (:customer, :key, :fingerprint, :at, :answer);

-- name: add_document
INSERT INTO document (
    seq, id, customer, level, line, count, submitted_at, ready_at, metadata, cost, max_attempts, start_by, name, uri,
    blob, sha256, size, media_type, batch, pages, delay, attempt, state, due_at, delayed_at
) VALUES (
    :seq, :id, :owner, :level, :level, :count, :now, :now, :metadata, :cost, :max_attempts, :start_by, :name, :uri,
    :blob, :sha256, :size, :media_type, :batch, :pages, :delay, 0, iif(:delay, 'delayed', 'waiting'),
    iif(:delay, :now + :delay, NULL), iif(:delay, :now, NULL)
);

-- name: add_change
INSERT INTO line_change (customer, kind, level, n, seq, ready_at, cost, settings) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_event
INSERT INTO event (number, at, kind, customer, documents, operator, why, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: changes
SELECT customer, kind, level, n, seq, ready_at, cost, settings FROM line_change ORDER BY number;

-- name: forget_changes
DELETE FROM line_change;

-- name: anything_to_claim
SELECT paused_by IS NULL AND (EXISTS (SELECT 1 FROM line_change) OR EXISTS (SELECT 1 FROM line WHERE filed = 1))
FROM queue;

-- name: deadlines
SELECT start_by, lease, due, rate FROM next_due;

-- name: late_to_start
SELECT seq FROM document INDEXED BY document_start_by
WHERE start_by IS NOT NULL AND attempt = 0 AND state IN ('waiting', 'delayed') AND start_by <= :now
ORDER BY start_by, seq LIMIT :limit;

-- name: lost_leases
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
SELECT customer, settings, whole_at FROM limits WHERE rate_closed_until > :now ORDER BY customer;

-- name: set_term
UPDATE document SET due_at = ?, doubted_at = ? WHERE seq = ?;

-- name: maintenance
SELECT maintenance FROM queue;

-- name: record_maintenance
UPDATE queue SET maintenance = :record;

-- name: count_ended_before
SELECT count(*) FROM document INDEXED BY document_clock
WHERE state = :state AND state <> 'waiting' AND coalesce(due_at, finished_at) < :before AND seq <= :up_to
    AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps);

-- name: count_ended_before_of
SELECT count(*) FROM document INDEXED BY document_line
WHERE customer = :customer AND finished_at IS NOT NULL AND finished_at < :before AND seq <= :up_to;

-- name: lines_of
SELECT customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front, out_of_turn_at,
    EXISTS (SELECT 1 FROM limits WHERE limits.customer = line.customer)
FROM line WHERE customer = :customer;

-- name: line
SELECT customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front, out_of_turn_at,
    EXISTS (SELECT 1 FROM limits WHERE limits.customer = line.customer)
FROM line WHERE customer = :customer AND level = :level;

-- name: lowest_lines
SELECT customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front, out_of_turn_at,
    EXISTS (SELECT 1 FROM limits WHERE limits.customer = line.customer)
FROM line INDEXED BY line_place
WHERE filed = 1 AND level = :level AND (place, tie) > (:seen, :tie) ORDER BY place, tie LIMIT :limit;

-- name: oldest_lines
SELECT customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front, out_of_turn_at,
    EXISTS (SELECT 1 FROM limits WHERE limits.customer = line.customer)
FROM line INDEXED BY line_age
WHERE filed = 1 AND level = :level AND (head_ready_at, head_seq) > (:seen, :tie)
ORDER BY head_ready_at, head_seq LIMIT :limit;

-- name: oldest_rested_lines
SELECT customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front, out_of_turn_at,
    EXISTS (SELECT 1 FROM limits WHERE limits.customer = line.customer)
FROM line INDEXED BY line_age
WHERE filed = 1 AND level = :level AND (head_ready_at, head_seq) > (:seen, :tie)
    AND (out_of_turn_at <= :rested_since OR out_of_turn_at > :now)
ORDER BY head_ready_at, head_seq LIMIT :limit;

-- name: save_line
INSERT OR REPLACE INTO line (
    customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front, out_of_turn_at,
    place, tie
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: forget_line
DELETE FROM line WHERE customer = ? AND level = ?;

-- name: empty_lines
SELECT customer, level, turn FROM line WHERE waiting = 0 AND out_of_turn_at <= :rested_since;

-- name: limits
SELECT settings, running, whole_at, rate_closed_until FROM limits WHERE customer = :customer;

-- name: save_limits
INSERT OR REPLACE INTO limits (customer, settings, running, whole_at, rate_closed_until) VALUES (?, ?, ?, ?, ?);

-- name: waiting_in_line
SELECT seq, ready_at, cost FROM document INDEXED BY document_line
WHERE customer = :customer AND line = :level AND seq >= :first AND state = 'waiting' ORDER BY seq LIMIT :limit;

-- name: returned_to_line
SELECT returned.seq, returned.ready_at, returned.cost
FROM returned CROSS JOIN document ON document.seq = returned.seq AND document.state = 'waiting'
WHERE returned.customer = :customer AND returned.line = :level AND returned.seq >= :first
ORDER BY returned.seq LIMIT :limit;

-- name: keep_returned
INSERT OR REPLACE INTO returned (customer, line, seq, ready_at, cost) VALUES (?, ?, ?, ?, ?);

-- name: forget_returned
DELETE FROM returned WHERE customer = ? AND line = ? AND seq = ?;

-- name: forget_all_returned
DELETE FROM returned;

-- name: return_all
INSERT INTO returned (customer, line, seq, ready_at, cost)
SELECT customer, line, seq, ready_at, cost FROM document WHERE state = 'waiting';

-- name: start_document
UPDATE document SET
    state = 'running', attempt = attempt + 1, started_at = ?3, due_at = ?4, fence = ?5, worker = ?6, settled = NULL,
    leased_at = ?3, doubted_at = NULL, began_at = NULL, worked = NULL
WHERE seq = ?1 AND state = 'waiting'
RETURNING
    id, ?2, seq, level, count, state, submitted_at, ready_at, NULL, started_at, finished_at, attempt, fence,
    worker, due_at, line, error, name, uri, blob, sha256, size, media_type, batch, metadata, cost, delay, start_by,
    max_attempts, pages, began_at, worked, customer;

-- name: whole_by_id
SELECT * FROM document_view WHERE id = :id;

-- name: finish_document
UPDATE document SET
    state = 'done', finished_at = ?3, due_at = NULL, worker = NULL, error = NULL, settled = 'done', result = ?4,
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

-- name: see_worker
INSERT OR REPLACE INTO worker (name, seen_at, report, at_work) VALUES (:name, :now, :report, :at_work);

-- name: forget_worker
DELETE FROM worker WHERE name = :name;

-- name: forget_silent_workers
DELETE FROM worker WHERE seen_at NOT BETWEEN :first AND :last;

-- name: workers
SELECT report, at_work, seen_at FROM worker ORDER BY name;

-- name: row
SELECT seq, customer, state, level, line, attempt, max_attempts, fence, settled, cost, start_by
FROM document WHERE id = :id;

-- name: row_by_seq
SELECT seq, customer, state, level, line, attempt, max_attempts, fence, settled, cost, start_by, id
FROM document WHERE seq = :seq;

-- name: wait_again
UPDATE document SET
    state = 'waiting', ready_at = :now, due_at = NULL, worker = NULL, attempt = :attempt,
    settled = :settled
WHERE seq = :seq;

-- name: started_at
SELECT started_at FROM document WHERE seq = :seq;

-- name: record_work
UPDATE document SET began_at = ?, worked = ? WHERE seq = ?;

-- name: release_document
UPDATE document SET
    state = 'waiting', due_at = NULL, worker = NULL, attempt = attempt - 1, settled = 'handed_back'
WHERE seq = :seq
RETURNING ready_at;

-- name: delay_document
UPDATE document SET
    state = 'delayed', due_at = :due_at, worker = NULL, error = :error, settled = 'failed', delayed_at = :now,
    doubted_at = NULL
WHERE seq = :seq;

-- name: end_document
UPDATE document SET
    state = :state, finished_at = :now, due_at = NULL, worker = NULL, error = :error,
    settled = :settled
WHERE seq = :seq;

-- name: cancel_document
UPDATE document SET state = 'cancelled', finished_at = :now, due_at = NULL, worker = NULL
WHERE seq = :seq;

-- name: begin_again
UPDATE document SET
    seq = :new, level = :level, line = :level, count = :count, state = 'waiting', ready_at = :now, attempt = 0,
    start_by = NULL, due_at = NULL, started_at = NULL, finished_at = NULL, error = NULL, settled = NULL,
    began_at = NULL, worked = NULL
WHERE seq = :seq;

-- name: expedite_document
UPDATE document SET
    line = 0, due_at = NULL, state = 'waiting',
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

-- name: purge_returned
DELETE FROM returned WHERE customer = :customer;

-- name: purge_keys
DELETE FROM key WHERE customer = :customer;

-- name: waiting_of
SELECT line, count(*) FROM document WHERE customer = :customer AND state = 'waiting' GROUP BY line ORDER BY line;

-- name: ended_before
SELECT seq, blob, finished_at FROM document INDEXED BY document_clock
WHERE state = :state AND state <> 'waiting' AND coalesce(due_at, finished_at) < :before AND seq <= :up_to
    AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps)
ORDER BY coalesce(due_at, finished_at), seq LIMIT :limit;

-- name: ended_before_of
SELECT seq, blob FROM document INDEXED BY document_line
WHERE customer = :customer AND finished_at IS NOT NULL AND finished_at < :before AND seq <= :up_to
ORDER BY finished_at, seq LIMIT :limit;

-- name: forget_document
DELETE FROM document WHERE seq = ?;

-- name: forget_keys
DELETE FROM key WHERE at < :before;

-- name: forget_events
DELETE FROM event WHERE number IN (
    SELECT number FROM event WHERE operator IS NULL AND at < :before ORDER BY number LIMIT :limit
);

-- name: waiting_counts
SELECT document.customer, document.line, count(*), min(seq) FROM document WHERE state = 'waiting' GROUP BY 1, 2;

-- name: found_counts
SELECT customer, line, count(*) FROM (
    SELECT document.customer, document.line, seq
    FROM document JOIN line ON line.customer = document.customer AND line.level = document.line
    WHERE state = 'waiting' AND seq >= front
    UNION
    SELECT customer, line, seq FROM returned
)
GROUP BY 1, 2;

-- name: line_counts
SELECT customer, level, waiting FROM line;

-- name: capped_counts
SELECT limits.customer, limits.running,
    (SELECT count(*) FROM document INDEXED BY document_clock
     WHERE state = 'running' AND state <> 'waiting' AND +document.customer = limits.customer)
FROM limits JOIN customer ON customer.id = limits.customer WHERE customer.capped = 1;
