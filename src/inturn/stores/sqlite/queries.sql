-- Queries of the SQLite store that write, or that a write needs, called by their names. Queries of the same name in
-- PostgreSQL do the same; those with the same text are in sql/shared.sql. The map of the tables is in
-- migrations/0009_plain_names.sql.
--
-- A query for `fetch_many` is written for one row of values and run for each, but for those with `:rows`, which get all rows
-- as JSON. Some are several statements: what belongs to one change of a document is done under one name.
--
-- INDEXED BY stands where the cost of a claim depends on it: the plan is then the same with statistics or without.
-- `state <> 'waiting'` and `coalesce(due_at, finished_at)` repeat the terms of the index document_clock, so that SQLite
-- sees that it serves. `lock_claims` and `lock_caps` do nothing: a transaction that writes is alone anyway.

-- name: queue
SELECT
    policy, ordered, scheduler_state, fence, paused_by, EXISTS (SELECT 1 FROM limits), EXISTS (SELECT 1 FROM lane_log),
    (SELECT json_group_array(json_array(seen_at, slots, iif(paused_by IS NULL, NULL, name), queues)) FROM worker),
    (SELECT json_group_array(json_array(number, name, turn_weight, paused_by IS NOT NULL, cap, rate_documents, rate_per, coalesce(tat, 0)))
     FROM named_queue LEFT JOIN queue_rate ON queue = number),
    deadlines.start_by, deadlines.lease, deadlines.due, deadlines.rate
FROM queue_state, deadlines;

-- name: allocate_seqs
UPDATE queue_state SET seq = seq + :n RETURNING seq, policy;

-- name: save_claim
UPDATE queue_state SET
    ordered = :ordered, scheduler_state = :scheduler_state, fence = :fence, event = event + :events, version = version + 1
RETURNING event;

-- name: allocate_events
UPDATE queue_state SET event = event + :n RETURNING event;

-- name: lock_policy
SELECT policy FROM queue_state;

-- name: lock_claims
SELECT 1;

-- name: lock_caps
SELECT 1;

-- name: lock_customer
SELECT id, count, updated_at, settings FROM customer WHERE name = :name;

-- name: lock_customers
SELECT id, count, updated_at FROM customer WHERE id = :id;

-- name: owners_of
SELECT customer FROM document WHERE id = unhex(:id, '-');

-- name: add_customer
INSERT INTO customer (name) VALUES (:name);

-- name: customer_names
SELECT id, name FROM customer WHERE id = :id;

-- name: capped_of
SELECT id FROM customer WHERE id = :id AND capped;

-- name: running_counts
SELECT customer, count(*) FROM document INDEXED BY document_clock
WHERE state = 'running' AND state <> 'waiting' GROUP BY customer;

-- name: save_idempotency_key
INSERT OR REPLACE INTO idempotency_key (customer, key, fingerprint, at, answer)
VALUES (:customer, :key, :fingerprint, :at, :answer);

-- name: add_document
INSERT INTO document (
    seq, id, customer, level, lane, count, submitted_at, ready_at, metadata, cost, max_attempts, start_by, name, uri,
    blob, sha256, size, media_type, batch, pages, delay, attempt, state, due_at, delayed_at, group_name,
    queue, steps, ahead
) VALUES (
    :seq, :id, :owner, :level, :lane, :count, :now, :now, :metadata, :cost, :max_attempts, :start_by, :name, :uri,
    :blob, :sha256, :size, :media_type, :batch, :pages, :delay, 0, iif(:delay, 'delayed', 'waiting'),
    iif(:delay, :now + :delay, NULL), iif(:delay, :now, NULL), :group_name,
    :queue, :steps, :ahead
);

-- name: add_parts
INSERT INTO document (
    seq, id, customer, level, lane, count, submitted_at, ready_at, metadata, cost, max_attempts, start_by, name, uri,
    blob, sha256, size, media_type, batch, pages, delay, attempt, state, due_at, delayed_at, group_name,
    queue, steps, ahead, parent, part, split_step
) VALUES (
    :seq, unhex(:id, '-'), :customer, :level, :lane, :count, :now, :now, :metadata, :cost, :max_attempts, :start_by, :name,
    :uri, :blob, :sha256, :size, :media_type, :batch, :pages, :delay, 0, iif(:delay, 'delayed', 'waiting'),
    iif(:delay, :now + :delay, NULL), iif(:delay, :now, NULL), :group_name,
    :queue, :steps, :ahead, unhex(:parent, '-'), :part, :split_step
);

-- name: group_numbers
SELECT name, number FROM customer_group WHERE customer = :customer AND name = :name;

-- name: add_group
INSERT INTO customer_group (customer, name, number)
SELECT :customer, :name, 1 + coalesce(max(number), 0) FROM customer_group WHERE customer = :customer
RETURNING number;

-- name: append_to_lane_log
INSERT INTO lane_log (customer, kind, level, n, seq, ready_at, cost, settings, charged, worked)
VALUES (:customer, :kind, :level, :n, :seq, :ready_at, :cost, :settings, :charged, :worked);

-- name: add_event
INSERT INTO event (number, at, kind, customer, documents, operator, why, detail, queue)
VALUES (:number, :at, :kind, :customer, :documents, :operator, :why, :detail, :queue);

-- name: lane_log
SELECT customer, kind, level, n, seq, ready_at, cost, settings, charged, worked FROM lane_log ORDER BY number;

-- name: clear_lane_log
DELETE FROM lane_log;

-- name: anything_to_claim
SELECT
    paused_by IS NULL AND (
        EXISTS (SELECT 1 FROM lane_log)
        OR EXISTS (
            SELECT 1 FROM named_queue CROSS JOIN lane INDEXED BY lane_sort
            WHERE named_queue.name IN (SELECT value FROM json_each(:queues)) AND named_queue.paused_by IS NULL
                AND scheduled = 1 AND level BETWEEN 10 * named_queue.number AND 10 * named_queue.number + 9
        )
        OR EXISTS (SELECT 1 FROM json_each(scheduler_state, '$[5][3]') WHERE value)
        OR EXISTS (SELECT 1 FROM queue_scheduler, json_each(state, '$[5][3]') WHERE value)
    )
    OR EXISTS (SELECT 1 FROM deadlines WHERE :now >= min(
        coalesce(start_by, 9223372036854775807), coalesce(lease, 9223372036854775807),
        coalesce(due, 9223372036854775807), coalesce(rate, 9223372036854775807)
    ))
FROM queue_state;

-- name: deadlines
SELECT lease, due, rate FROM deadlines;

-- name: late_to_start
SELECT
    id, seq, customer, state, level, lane, attempt, max_attempts, fence, last_outcome, cost, start_by, started_at, worker,
    charged, due_at, step, queue, ready_at, parent, count
FROM document INDEXED BY document_start_by
WHERE start_by IS NOT NULL AND attempt = 0 AND state IN ('waiting', 'delayed') AND start_by <= :now
ORDER BY start_by, seq LIMIT :limit;

-- name: next_start_by
SELECT start_by FROM deadlines;

-- name: expired_leases
SELECT
    id, seq, customer, state, level, lane, attempt, max_attempts, fence, last_outcome, cost, start_by, started_at, worker,
    charged, due_at, step, queue, ready_at, parent, count
FROM document INDEXED BY document_clock
WHERE state = 'running' AND state <> 'waiting' AND coalesce(due_at, finished_at) <= :now
ORDER BY coalesce(due_at, finished_at), seq LIMIT :limit;

-- name: next_lease_check
SELECT lease FROM deadlines;

-- name: due_documents
SELECT
    id, seq, customer, state, level, lane, attempt, max_attempts, fence, last_outcome, cost, start_by, started_at, worker,
    charged, due_at, step, queue, ready_at, parent, count
FROM document INDEXED BY document_clock
WHERE state = 'delayed' AND state <> 'waiting' AND coalesce(due_at, finished_at) <= :now
ORDER BY coalesce(due_at, finished_at), seq LIMIT :limit;

-- name: next_due
SELECT due FROM deadlines;

-- name: next_rate
SELECT rate_closed_until FROM limits WHERE rate_closed_until > :now ORDER BY rate_closed_until LIMIT 1;

-- name: leases_ahead
SELECT seq, leased_at, due_at, doubted_at FROM document INDEXED BY document_clock
WHERE state = 'running' AND state <> 'waiting' AND leased_at > :now ORDER BY seq;

-- name: delays_ahead
SELECT seq, delayed_at, due_at, doubted_at FROM document INDEXED BY document_delayed
WHERE state = 'delayed' AND delayed_at > :now ORDER BY seq;

-- name: set_lease_term
UPDATE document SET due_at = :ends_at, doubted_at = :doubted_at WHERE seq = :seq;

-- name: count_ended_before
SELECT count(*) FROM document INDEXED BY document_clock
WHERE state IN ('done', 'failed', 'cancelled', 'expired') AND state <> 'waiting'
    AND coalesce(due_at, finished_at) < :before AND seq <= :up_to
    AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps)
    AND NOT EXISTS (SELECT 1 FROM document AS whole WHERE whole.id = document.parent AND coalesce(whole.finished_at >= :before, true));

-- name: count_ended_before_of
SELECT count(*) FROM document INDEXED BY document_lane
WHERE customer = :customer AND finished_at IS NOT NULL AND finished_at < :before AND seq <= :up_to
    AND NOT EXISTS (SELECT 1 FROM document AS whole WHERE whole.id = document.parent AND coalesce(whole.finished_at >= :before, true));

-- name: lanes_of
SELECT value ->> 0, value ->> 1, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from,
    out_of_turn_at, group_turn, unit_time, in_flight, NULL
FROM json_each(:rows) LEFT JOIN lane ON lane.customer = value ->> 0 AND lane.level = value ->> 1
    LEFT JOIN queue_work ON queue_work.customer = value ->> 0 AND queue_work.queue = (value ->> 1) / 10;

-- name: oldest_heads
SELECT value ->> 0, (
    SELECT head_ready_at FROM lane INDEXED BY lane_age
    WHERE scheduled = 1 AND level = value ->> 0 ORDER BY head_ready_at, head_seq LIMIT 1
)
FROM json_each(:rows);

-- name: lowest_lanes
SELECT lane.customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from,
    out_of_turn_at, group_turn, unit_time, in_flight, NULL
FROM lane INDEXED BY lane_sort LEFT JOIN queue_work ON queue_work.customer = lane.customer AND queue = :level / 10
WHERE scheduled = 1 AND level = :level AND (sort_key, sort_tie) > (:after, :after_tie)
ORDER BY sort_key, sort_tie LIMIT :limit;

-- name: oldest_lanes
SELECT lane.customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from,
    out_of_turn_at, group_turn, unit_time, in_flight, NULL
FROM lane INDEXED BY lane_age LEFT JOIN queue_work ON queue_work.customer = lane.customer AND queue = :level / 10
WHERE scheduled = 1 AND level = :level AND (head_ready_at, head_seq) > (:after, :after_tie)
ORDER BY head_ready_at, head_seq LIMIT :limit;

-- name: oldest_rested_lanes
SELECT lane.customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from,
    out_of_turn_at, group_turn, unit_time, in_flight, NULL
FROM lane INDEXED BY lane_age LEFT JOIN queue_work ON queue_work.customer = lane.customer AND queue = :level / 10
WHERE scheduled = 1 AND level = :level AND (head_ready_at, head_seq) > (:after, :after_tie)
    AND (out_of_turn_at <= :rested_since OR out_of_turn_at > :now)
ORDER BY head_ready_at, head_seq LIMIT :limit;

-- name: save_lane
INSERT OR REPLACE INTO lane (
    customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from, out_of_turn_at,
    group_turn, sort_key, sort_tie
) VALUES (
    :customer, :level, :weight, :turn, :stamp, :waiting, :head_seq, :head_ready_at, :head_cost, :scheduled, :scan_from,
    :out_of_turn_at, :group_turn, :sort_key, :sort_tie
);

-- name: save_work
INSERT OR REPLACE INTO queue_work (customer, queue, unit_time, in_flight)
VALUES (:customer, :queue, :unit_time, :in_flight);

-- name: running_by_queue
SELECT queue, count(*) FROM document INDEXED BY document_clock
WHERE state = 'running' AND state <> 'waiting' GROUP BY queue;

-- name: save_queue_scheduler
INSERT OR REPLACE INTO queue_scheduler (queue, state) VALUES (:queue, :state);

-- name: lock_queues
SELECT 1;

-- name: save_tat
INSERT OR REPLACE INTO queue_rate (queue, tat) VALUES (:queue, :tat);

-- name: forget_lane
DELETE FROM lane WHERE customer = :customer AND level = :level;

-- name: forget_spent_lanes
DELETE FROM lane WHERE waiting = 0 AND out_of_turn_at <= :rested_since
    AND NOT EXISTS (
        SELECT 1 FROM queue_work
        WHERE queue_work.customer = lane.customer AND queue_work.queue = lane.level / 10 AND in_flight > 0
    )
    AND turn <= (SELECT value ->> 1 FROM json_each(:rows) WHERE value ->> 0 = lane.level);

-- name: groups_of
SELECT customer, level, number, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scan_from
FROM json_each(:rows) JOIN lane_group
    ON lane_group.customer = value ->> 0 AND lane_group.level = value ->> 1 AND lane_group.number = value ->> 2;

-- name: lowest_groups
SELECT customer, level, number, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scan_from
FROM lane_group INDEXED BY lane_group_turn
WHERE customer = :customer AND level = :level AND waiting > 0 AND (turn, stamp) > (:after, :after_tie)
ORDER BY turn, stamp LIMIT :limit;

-- name: oldest_groups
SELECT customer, level, number, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scan_from
FROM lane_group INDEXED BY lane_group_head
WHERE customer = :customer AND level = :level AND waiting > 0 AND head_seq > :after
ORDER BY head_seq LIMIT :limit;

-- name: save_group
INSERT OR REPLACE INTO lane_group (
    customer, level, number, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scan_from
) VALUES (
    :customer, :level, :number, :turn, :stamp, :waiting, :head_seq, :head_ready_at, :head_cost, :scan_from
);

-- name: forget_group
DELETE FROM lane_group WHERE customer = :customer AND level = :level AND number = :number;

-- name: forget_groups_of_lane
DELETE FROM lane_group WHERE customer = :customer AND level = :level;

-- name: limits_of
SELECT customer, settings, running, tat, rate_closed_until FROM limits
WHERE customer IN (SELECT value ->> 0 FROM json_each(:rows));

-- name: save_limits
INSERT OR REPLACE INTO limits (customer, settings, running, tat, rate_closed_until)
VALUES (:customer, :settings, :running, :tat, :rate_closed_until);

-- name: waiting_in_lanes
SELECT :customer, :level, seq, ready_at, cost, 1 FROM (
    SELECT seq, ready_at, cost FROM document INDEXED BY document_lane
    WHERE customer = :customer AND lane = :level AND seq >= max(:after + 1, :scan_from) AND state = 'waiting'
    ORDER BY seq LIMIT :limit
)
UNION ALL
SELECT :customer, :level, seq, ready_at, cost, 0 FROM (
    SELECT requeued.seq, requeued.ready_at, requeued.cost
    FROM requeued CROSS JOIN document ON document.seq = requeued.seq AND document.state = 'waiting'
    WHERE requeued.customer = :customer AND requeued.lane = :level AND requeued.seq > :after
    ORDER BY requeued.seq LIMIT :limit
);

-- name: forget_requeued
DELETE FROM requeued WHERE customer = :customer AND lane = :lane AND seq = :seq;

-- name: rebuild_derived_tables
DELETE FROM requeued;
INSERT INTO requeued (customer, lane, seq, ready_at, cost)
SELECT customer, lane, seq, ready_at, cost FROM document WHERE state = 'waiting';

-- name: start_document
UPDATE document SET
    state = 'running', attempt = attempt + 1, started_at = :now, due_at = :until, fence = :fence, worker = :worker,
    last_outcome = NULL, leased_at = :now, doubted_at = NULL, began_at = NULL, worked = NULL, charged = :charged
WHERE seq = :seq AND state = 'waiting'
RETURNING
    id, NULL, seq, level, count, state, submitted_at, ready_at, NULL, started_at, finished_at, attempt, fence,
    worker, due_at, lane, error, name, uri, blob, sha256, size, media_type, batch, metadata, cost, delay, start_by,
    max_attempts, pages, began_at, worked, group_name, queue, steps, first_queue, step, ahead, parent, part;

-- name: document_by_id
SELECT * FROM document_view WHERE id = unhex(:id, '-');

-- name: finish_documents
UPDATE document SET
    state = 'done', finished_at = :now, due_at = NULL, worker = NULL, error = NULL, last_outcome = 'done', result = :result,
    began_at = min(started_at + coalesce(:began_after, 0), max(started_at, :now)),
    worked = max(0, min(coalesce(:worked, :now - started_at), :now - started_at - coalesce(:began_after, 0)))
WHERE id = unhex(:id, '-') AND fence = :fence AND state = 'running'
RETURNING
    id, customer, seq, (SELECT capped FROM customer WHERE customer.id = document.customer), lane, cost, charged, worked,
    step, parent IS NOT NULL, queue;

-- name: add_files
INSERT INTO file (document, step, name, blob, size, sha256, media_type)
VALUES (:document, :step, :name, :blob, :size, :sha256, :media_type);

-- name: files
SELECT name, blob, size, sha256, media_type FROM file
WHERE (document, step) = (SELECT seq, step FROM document WHERE id = unhex(:id, '-')) ORDER BY name;

-- name: files_of_steps
SELECT step, name, blob, size, sha256, media_type FROM file
WHERE document = (SELECT seq FROM document WHERE id = unhex(:id, '-')) ORDER BY step, name;

-- name: last_files
SELECT document, name, blob, size, sha256, media_type FROM file
WHERE document = :seq AND step = (SELECT step FROM document WHERE seq = :seq);

-- name: known_blobs
SELECT :blob WHERE EXISTS (SELECT 1 FROM document WHERE blob = :blob) OR EXISTS (SELECT 1 FROM file WHERE blob = :blob);

-- name: forget_files
DELETE FROM file WHERE document = :seq RETURNING document, blob;

-- name: lock_documents
SELECT
    id, seq, customer, state, level, lane, attempt, max_attempts, fence, last_outcome, cost, start_by, started_at, worker,
    charged, due_at, step, queue, ready_at, parent, count
FROM document WHERE id = unhex(:id, '-');

-- name: states_of
SELECT id, fence, state FROM document WHERE id = unhex(:id, '-');

-- name: move_documents
UPDATE document SET
    state = :state, first_queue = coalesce(first_queue, queue), queue = :queue, lane = :lane, level = :level, count = :count,
    step = step + 1, ahead = :ahead, ready_at = iif(:state = 'waiting', :now, ready_at), attempt = 0, start_by = NULL,
    due_at = NULL, worker = NULL, error = NULL, last_outcome = :last_outcome, began_at = :began_at, worked = :worked
WHERE seq = :seq;
INSERT OR REPLACE INTO requeued (customer, lane, seq, ready_at, cost)
SELECT customer, lane, seq, ready_at, cost FROM document WHERE seq = :seq AND state = 'waiting';

-- name: split_without_unended_parts
SELECT
    id, seq, customer, state, level, lane, attempt, max_attempts, fence, last_outcome, cost, start_by, started_at, worker,
    charged, due_at, step, queue, ready_at, parent, count
FROM document
WHERE id IN (SELECT parent FROM document WHERE seq = :seq UNION ALL SELECT id FROM document WHERE seq = :seq)
    AND state = 'split' AND NOT EXISTS (
    SELECT 1 FROM document AS part INDEXED BY document_unended_part
    WHERE part.parent = document.id AND part.finished_at IS NULL
);

-- name: unended_parts
SELECT id FROM document INDEXED BY document_unended_part
WHERE parent = unhex(:id, '-') AND finished_at IS NULL ORDER BY seq;

-- name: parts_below
WITH RECURSIVE below (id) AS (
    SELECT unhex(:id, '-')
    UNION ALL
    SELECT document.id FROM document JOIN below ON document.parent = below.id
)
SELECT id FROM document WHERE id IN (SELECT id FROM below) AND id <> unhex(:id, '-') ORDER BY seq;

-- name: requeue_document
UPDATE document SET
    state = 'waiting', ready_at = :now, due_at = NULL, worker = NULL, last_outcome = :last_outcome
WHERE seq = :seq;
INSERT OR REPLACE INTO requeued (customer, lane, seq, ready_at, cost)
SELECT customer, lane, seq, ready_at, cost FROM document WHERE seq = :seq;

-- name: release_document
UPDATE document SET
    state = 'waiting', due_at = NULL, worker = NULL, attempt = attempt - 1, last_outcome = 'handed_back'
WHERE seq = :seq;
INSERT OR REPLACE INTO requeued (customer, lane, seq, ready_at, cost)
SELECT customer, lane, seq, ready_at, cost FROM document WHERE seq = :seq
RETURNING ready_at;

-- name: delay_document
UPDATE document SET
    state = 'delayed', due_at = :due_at, worker = NULL, error = :error, last_outcome = 'failed', delayed_at = :now,
    doubted_at = NULL
WHERE seq = :seq;

-- name: end_document
UPDATE document SET
    state = :state, finished_at = :now, due_at = NULL, worker = NULL, error = :error, last_outcome = :last_outcome
WHERE seq = :seq;
DELETE FROM requeued WHERE customer = :customer AND lane = :lane AND seq = :seq;

-- name: cancel_document
UPDATE document SET state = 'cancelled', finished_at = :now, due_at = NULL, worker = NULL WHERE seq = :seq;
DELETE FROM requeued WHERE customer = :customer AND lane = :lane AND seq = :seq;

-- name: retry_document
UPDATE queue_state SET seq = seq + 1;
UPDATE document SET
    seq = (SELECT seq FROM queue_state), level = :level, lane = :lane, queue = :queue, count = :count, state = :state,
    ready_at = :now, attempt = 0, start_by = NULL, due_at = NULL, started_at = NULL, finished_at = NULL, error = NULL,
    last_outcome = NULL, began_at = NULL, worked = NULL
WHERE seq = :seq
RETURNING seq;

-- name: expedite_document
DELETE FROM requeued WHERE customer = :customer AND lane = :lane AND seq = :seq;
UPDATE document SET
    lane = lane - lane % 10 + iif(:undo, level, 0), due_at = NULL, state = 'waiting',
    ready_at = CASE state WHEN 'delayed' THEN :now ELSE ready_at END
WHERE seq = :seq;
INSERT OR REPLACE INTO requeued (customer, lane, seq, ready_at, cost)
SELECT customer, lane, seq, ready_at, cost FROM document WHERE seq = :seq
RETURNING ready_at, lane;

-- name: forget_steps
DELETE FROM file WHERE document = :seq;
UPDATE attempt SET result = NULL
WHERE (customer, document) = (SELECT customer, id FROM document WHERE seq = :seq) AND result IS NOT NULL;
UPDATE document SET step = 0, ahead = :ahead WHERE seq = :seq;

-- name: heartbeat
UPDATE document SET due_at = :until, leased_at = :now, doubted_at = NULL
WHERE id = unhex(:id, '-') AND fence = :fence AND state = 'running' RETURNING id, fence, customer, 0;
