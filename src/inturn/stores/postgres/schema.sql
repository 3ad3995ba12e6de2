-- The schema itself: its version, its first rows, and what a backup asks of the catalog. {schema} stands for its name.

-- name: lock_migrations
SELECT pg_advisory_xact_lock(hashtext('inturn'), hashtext(%(schema)s));

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS {schema};

-- name: use_schema
SET LOCAL search_path = {schema}, pg_temp;

-- name: schema_version
SELECT coalesce(max(number), 0) FROM {schema}.migration;

-- name: is_initialized
SELECT EXISTS (SELECT 1 FROM {schema}.queue_state);

-- name: queues
SELECT namespace.nspname::text
FROM pg_catalog.pg_class AS migrations
JOIN pg_catalog.pg_class AS policies ON policies.relnamespace = migrations.relnamespace AND policies.relname = 'policy'
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = migrations.relnamespace
WHERE migrations.relname = 'migration' AND migrations.relkind = 'r' ORDER BY 1;

-- name: begin_policy
INSERT INTO policy (number, settings, at, operator, why)
VALUES (1, %(settings)s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, %(by)s, %(why)s)
ON CONFLICT DO NOTHING;

-- name: begin_queue
INSERT INTO queue_state (one, policy) VALUES (1, 1) ON CONFLICT DO NOTHING;

-- name: begin_scheduler_state
INSERT INTO scheduler_state (version, ordered, scheduler_json, deadlines, fence, reserved)
SELECT 0, 'fair', %(scheduler_state)s, %(deadlines)s, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM scheduler_state);

-- name: begin_event_sequence
INSERT INTO event_sequence (one, last) VALUES (1, 0) ON CONFLICT DO NOTHING;

-- name: last_seq
SELECT last_value + CASE WHEN is_called THEN 1 ELSE 0 END FROM document_seq;

-- name: columns
SELECT attname::text FROM pg_attribute
WHERE attrelid = %(table)s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum;

-- name: is_used
SELECT
    EXISTS (SELECT 1 FROM customer) OR EXISTS (SELECT 1 FROM event) OR EXISTS (SELECT 1 FROM event_outbox)
    OR EXISTS (SELECT 1 FROM worker) OR (SELECT max(version) FROM scheduler_state) > 0;

-- name: clear
DELETE FROM policy; DELETE FROM queue_state; DELETE FROM scheduler_state; DELETE FROM event_sequence;
DELETE FROM history; DELETE FROM history_cursor; DELETE FROM named_queue;

-- name: go_on
SELECT setval(pg_get_serial_sequence(%(table)s, %(column)s), %(last)s, false);

-- name: go_on_seq
SELECT setval('document_seq', %(last)s, false);
