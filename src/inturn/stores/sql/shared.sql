-- Queries that are the same in both dialects, with `:name` for a value.
--
--   the queue        pause .. forget_silent_workers
--   customers        customer .. idempotency_key
--   transitions, due record_work .. set_delay_term
--   events, API keys events .. api_keys
--   deletion         blobs_of .. lane_counts

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

-- name: order_lanes
UPDATE lane SET
    sort_key = CASE WHEN :fair THEN turn ELSE coalesce(head_seq, 0) END, sort_tie = CASE WHEN :fair THEN stamp ELSE 0 END;

-- name: maintenance
SELECT maintenance FROM queue_state;

-- name: record_maintenance
UPDATE queue_state SET maintenance = :record;

-- name: workers
SELECT report, at_work, seen_at FROM worker ORDER BY name;

-- name: forget_worker
DELETE FROM worker WHERE name = :name;

-- name: forget_silent_workers
DELETE FROM worker WHERE seen_at NOT BETWEEN :first AND :last;

-- name: customer
SELECT id, count, updated_at, settings FROM customer WHERE name = :name;

-- name: set_counter
UPDATE customer SET count = :count, updated_at = :updated_at WHERE id = :id;

-- name: set_settings
UPDATE customer SET settings = :settings, paused = :paused, capped = :capped, keeps = :keeps WHERE id = :id;

-- name: idempotency_key
SELECT fingerprint, at, answer FROM idempotency_key WHERE customer = :customer AND key = :key;

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
SELECT number, at, kind, customer, documents, operator, why, detail FROM event
WHERE number > :after ORDER BY number LIMIT :limit;

-- name: operator_events
SELECT number, at, kind, customer, documents, operator, why, detail FROM event
WHERE operator IS NOT NULL AND number < :before ORDER BY number DESC LIMIT :limit;

-- name: operator_events_of
SELECT number, at, kind, customer, documents, operator, why, detail FROM event
WHERE operator IS NOT NULL AND customer = :customer AND number < :before ORDER BY number DESC LIMIT :limit;

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

-- name: lane_counts
SELECT customer, level, waiting FROM lane;
