-- Queries that are the same in both dialects, with `:name` for a value.
--
--   the queue        pause .. forget_silent_workers
--   customers        customer .. idempotency_key
--   transitions, due record_work .. set_delay_term
--   events, API keys events .. api_keys
--   deletion         blobs_of .. forget_events, purge_groups
--   groups of lanes  forget_spent_groups .. lane_counts
--   search           search_progress .. unindexed_between

-- name: pause
UPDATE queue_state SET paused_by = :by, paused_why = :why;

-- name: paused
SELECT paused_by, paused_why FROM queue_state WHERE paused_by IS NOT NULL;

-- name: named_queues
SELECT number, name, paused_by, paused_why, description, turn_weight, cap, rate_documents, rate_per, manual, form
FROM named_queue ORDER BY number;

-- name: queue_number
SELECT number FROM named_queue WHERE name = :name;

-- name: add_queue
INSERT INTO named_queue (number, name) SELECT 1 + max(number), :name FROM named_queue RETURNING number;

-- name: set_queue
UPDATE named_queue SET
    description = :description, turn_weight = :weight, cap = :cap, rate_documents = :documents, rate_per = :per, manual = :manual,
    form = :form
WHERE number = :number;

-- name: forget_rate
DELETE FROM queue_rate WHERE queue = :number;

-- name: pause_queue
UPDATE named_queue SET paused_by = :by, paused_why = :why WHERE number = :number;

-- name: queue_scheduler
SELECT state FROM queue_scheduler WHERE queue = :queue;

-- name: queue_schedulers
SELECT queue, state FROM queue_scheduler;

-- name: waiting_by_track
SELECT level, sum(n) FROM (
    SELECT level, waiting AS n FROM lane WHERE waiting > 0
    UNION ALL
    SELECT level - 1000 * (level / 1000), n FROM lane_log WHERE level IS NOT NULL
) AS changes
GROUP BY level;

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

-- name: order_lanes
UPDATE lane SET
    sort_key = CASE WHEN :fair THEN turn ELSE coalesce(head_seq, 0) END, sort_tie = CASE WHEN :fair THEN stamp ELSE 0 END;

-- name: maintenance
SELECT maintenance FROM queue_state;

-- name: record_maintenance
UPDATE queue_state SET maintenance = :record;

-- name: forecasts
SELECT forecasts FROM queue_state;

-- name: save_forecasts
UPDATE queue_state SET forecasts = :log;

-- name: record_worker
INSERT INTO worker (name, seen_at, report, at_work, slots, version, started_at, queues)
VALUES (:name, :now, :report, :at_work, :slots, :version, :started_at, :queues)
ON CONFLICT (name) DO UPDATE SET
    seen_at = excluded.seen_at, report = excluded.report, at_work = excluded.at_work, slots = excluded.slots,
    version = excluded.version, started_at = excluded.started_at, queues = excluded.queues,
    paused_by = CASE WHEN worker.started_at = excluded.started_at THEN worker.paused_by END,
    paused_why = CASE WHEN worker.started_at = excluded.started_at THEN worker.paused_why END,
    paused_at = CASE WHEN worker.started_at = excluded.started_at THEN worker.paused_at END;

-- name: workers
SELECT seen_at, paused_by, paused_why, paused_at, report, at_work, version FROM worker ORDER BY name;

-- name: pause_worker
UPDATE worker SET paused_by = :by, paused_why = :why, paused_at = :at WHERE name = :name;

-- name: forget_worker
DELETE FROM worker WHERE name = :name;

-- name: forget_silent_workers
DELETE FROM worker WHERE seen_at NOT BETWEEN :first AND :last;

-- name: customer
SELECT id, count, updated_at, settings FROM customer WHERE name = :name;

-- name: customer_summaries
SELECT id, name, count, updated_at, settings, coalesce(lengths.n, 0)
FROM customer LEFT JOIN (
    SELECT customer, sum(n) AS n FROM (
        SELECT customer, waiting AS n FROM lane WHERE waiting > 0
        UNION ALL
        SELECT customer, n FROM lane_log WHERE level IS NOT NULL
    ) AS changes
    GROUP BY customer
) AS lengths ON lengths.customer = customer.id
ORDER BY name;

-- name: set_counter
UPDATE customer SET count = :count, updated_at = :updated_at WHERE id = :id;

-- name: set_settings
UPDATE customer SET settings = :settings, paused = :paused, capped = :capped, keeps = :keeps WHERE id = :id;

-- name: idempotency_key
SELECT fingerprint, at, answer FROM idempotency_key WHERE customer = :customer AND key = :key;

-- name: move_files
UPDATE file SET document = :new WHERE document = :old;

-- name: submitted_steps
SELECT coalesce(first_queue, queue), steps FROM document WHERE seq = :seq;

-- name: touch_whole
UPDATE document SET state = state
WHERE id = (SELECT parent FROM document WHERE seq = :seq) AND state IN ('split', 'failed', 'cancelled')
RETURNING seq;

-- name: stuck_documents
SELECT customer, seq FROM document
WHERE state = 'split'
    AND NOT EXISTS (SELECT 1 FROM document AS part WHERE part.parent = document.id AND part.finished_at IS NULL)
    AND NOT EXISTS (
        SELECT 1 FROM lane_log JOIN document AS part ON part.seq = lane_log.seq
        WHERE lane_log.kind = 'part_ended' AND (part.id = document.id OR part.parent = document.id)
    )
ORDER BY seq;

-- name: record_work
UPDATE document SET began_at = :began_at, worked = :worked WHERE seq = :seq;

-- name: due_rates
SELECT limits.customer FROM limits JOIN customer ON customer.id = limits.customer
WHERE rate_closed_until IS NOT NULL AND rate_closed_until <= :now ORDER BY rate_closed_until, name LIMIT :limit;

-- name: rates_ahead
SELECT customer, settings, tat FROM limits WHERE rate_closed_until > :now ORDER BY customer;

-- name: set_delay_term
UPDATE document SET due_at = :ends_at, doubted_at = :doubted_at WHERE seq = :seq;

-- name: events
SELECT number, at, kind, customer, documents, operator, why, detail, queue FROM event
WHERE number > :after ORDER BY number LIMIT :limit;

-- name: operator_events
SELECT number, at, kind, customer, documents, operator, why, detail, queue FROM event
WHERE operator IS NOT NULL AND number < :before AND at >= :since AND at < :until ORDER BY number DESC LIMIT :limit;

-- name: operator_events_of
SELECT number, at, kind, customer, documents, operator, why, detail, queue FROM event
WHERE operator IS NOT NULL AND customer = :customer AND number < :before AND at >= :since AND at < :until
ORDER BY number DESC LIMIT :limit;

-- name: api_key
SELECT id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces FROM api_key WHERE id = :id;

-- name: api_keys
SELECT id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces FROM api_key ORDER BY made_at, id;

-- name: blobs_of
SELECT blob FROM document WHERE customer = :customer AND blob IS NOT NULL
UNION ALL
SELECT file.blob FROM document JOIN file ON file.document = document.seq WHERE document.customer = :customer;

-- name: purge_idempotency_keys
DELETE FROM idempotency_key WHERE customer = :customer;

-- name: purge_attempts
DELETE FROM attempt WHERE customer = :customer;

-- name: purge_api_keys
DELETE FROM api_key WHERE customer = :customer;

-- name: forget_idempotency_keys
DELETE FROM idempotency_key WHERE at < :before;

-- name: forget_events
DELETE FROM event WHERE number IN (
    SELECT number FROM event WHERE operator IS NULL AND at < :before ORDER BY number LIMIT :limit
);

-- name: purge_groups
DELETE FROM customer_group WHERE customer = :customer;

-- name: forget_spent_groups
DELETE FROM lane_group WHERE waiting = 0 AND turn <= (
    SELECT group_turn FROM lane WHERE lane.customer = lane_group.customer AND lane.level = lane_group.level
);

-- name: groups_of_lane
SELECT customer, level, number, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scan_from
FROM lane_group WHERE customer = :customer AND level = :level AND waiting > 0;

-- name: waiting_before
SELECT count(*) FROM document
WHERE customer = :customer AND lane - 1000 * (lane / 1000) = :level AND state = 'waiting' AND seq < :seq;

-- name: lane_counts
SELECT
    customer, level, waiting - coalesce((
        SELECT sum(waiting) FROM lane_group
        WHERE lane_group.customer = lane.customer AND lane_group.level = lane.level AND number > 0
    ), 0)
FROM lane
UNION ALL
SELECT customer, level + 1000 * number, waiting FROM lane_group WHERE number > 0;

-- name: search_progress
SELECT next_chunk FROM search_progress;

-- name: advance_search
UPDATE search_progress SET next_chunk = :next WHERE next_chunk <= :chunk;

-- name: first_seq_from
SELECT min(seq) FROM document WHERE seq >= :seq;

-- name: documents_to_index
SELECT seq, customer, name, metadata, batch, submitted_at FROM document WHERE seq BETWEEN :first AND :last ORDER BY seq;

-- name: add_chunk
INSERT INTO search_chunk (chunk, documents, oldest, newest) VALUES (:chunk, :documents, :oldest, :newest);

-- name: update_chunk
UPDATE search_chunk SET documents = :documents, oldest = :oldest, newest = :newest WHERE chunk = :chunk;

-- name: remove_chunk
DELETE FROM search_chunk WHERE chunk = :chunk;

-- name: documents_between
SELECT count(*) FROM document WHERE seq BETWEEN :first AND :last;

-- name: terms_of_chunk
SELECT term, customer, places FROM search_term WHERE chunk = :chunk;

-- name: indexed_chunks
SELECT min(chunk), max(chunk) FROM search_term;

-- name: purge_terms
DELETE FROM search_term WHERE chunk BETWEEN :first AND :last AND customer = :customer;

-- name: chunks_between
SELECT min(chunk), max(chunk) FROM search_chunk WHERE newest >= :since AND oldest < :until;

-- name: unindexed_between
SELECT 1 FROM document WHERE seq >= :first AND submitted_at >= :since AND submitted_at < :until LIMIT 1;
