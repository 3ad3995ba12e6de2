-- Queries of transfer.py besides copying the rows of tables: state of the queue and the scheduler, leases, events.

-- name: limit_lock_wait
SET LOCAL lock_timeout = '20s';

-- name: tables
SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r';

-- name: key_columns
SELECT attname::text FROM pg_index
JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
WHERE indrelid = %(table)s::regclass AND indisprimary ORDER BY array_position(indkey::int2[], attnum);

-- name: read_queue_state
WITH newest AS MATERIALIZED (SELECT * FROM scheduler_state ORDER BY version DESC LIMIT 1)
SELECT
    (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM document_seq),
    CASE WHEN EXISTS (SELECT 1 FROM crash_sentinel) THEN newest.fence ELSE newest.reserved END,
    (SELECT last FROM event_sequence), queue_state.policy, newest.ordered, newest.scheduler_json,
    queue_state.paused_by, queue_state.paused_why
FROM queue_state, newest;

-- name: write_queue_state
UPDATE queue_state SET policy = %(policy)s, paused_by = %(by)s, paused_why = %(why)s;

-- name: write_scheduler_state
UPDATE scheduler_state SET
    version = version + 1, ordered = %(ordered)s, scheduler_json = %(scheduler_state)s, deadlines = %(deadlines)s, fence = %(fence)s,
    reserved = %(fence)s, folded = DEFAULT;

-- name: write_event_sequence
UPDATE event_sequence SET last = %(last)s, seen = DEFAULT;

-- name: restore_leases
UPDATE document SET lease_check_at = due_at, lease_until = due_at, due_at = NULL WHERE state = 'running';

-- name: read_all_events
SELECT number, at, kind, customer, documents, operator, why, detail, queue FROM event
UNION ALL
SELECT
    (SELECT last FROM event_sequence) + row_number() OVER (ORDER BY id, first), at, kind, customer, coalesce(documents, '{}'),
    operator, why, detail, queue
FROM (
    SELECT
        id, min(place) AS first, at, kind, coalesce(each.customer, customers[1]) AS customer,
        array_agg(document ORDER BY place) FILTER (WHERE document IS NOT NULL) AS documents, operator, why, detail,
        nullif(coalesce(each.queue, queues[1]), 'default') AS queue
    FROM event_outbox
        CROSS JOIN LATERAL unnest(customers, documents, queues) WITH ORDINALITY AS each (customer, document, queue, place)
    GROUP BY id, at, kind, coalesce(each.customer, customers[1]), coalesce(each.queue, queues[1]), operator, why, detail
) AS unnumbered;
