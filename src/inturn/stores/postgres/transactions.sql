-- How transactions begin and end, and what is asked of the session itself. See `connection.py`.
--
-- {settings} stands for the query of that name, {schema} for the queue's schema, {local} for LOCAL where a pooler shares
-- sessions.
-- Writers plan with sequential scans, bitmaps and sorts off and with one plan for all values: the plan is the same with
-- statistics or without, and a LIMIT need not be a constant for lanes to be read in the order of an index. Readers may scan.

-- name: settings
SET {local} search_path = {schema}, pg_temp;
SET {local} enable_seqscan = off;
SET {local} enable_bitmapscan = off;
SET {local} enable_sort = off;
SET {local} jit = off;
SET {local} plan_cache_mode = force_generic_plan;
SET {local} lock_timeout = '20s';

-- name: begin_write
BEGIN; {settings}

-- name: begin_transitions
BEGIN; {settings} LOCK TABLE cap_lock IN ROW SHARE MODE;

-- name: begin_submit
BEGIN; {settings} {lock_customer}; {policy_and_time};

-- name: begin_single_write
BEGIN; {settings}

-- name: begin_claim
BEGIN ISOLATION LEVEL REPEATABLE READ; {settings}
SET LOCAL synchronous_commit = off;
LOCK TABLE claim_lock IN EXCLUSIVE MODE;

-- name: begin_read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {settings}
SET LOCAL enable_seqscan = on; SET LOCAL enable_bitmapscan = on; SET LOCAL enable_sort = on;
SET LOCAL plan_cache_mode = force_custom_plan;

-- name: begin_single_read
BEGIN READ ONLY; {settings}

-- name: lock_claims
LOCK TABLE claim_lock IN EXCLUSIVE MODE;

-- name: lock_queues
LOCK TABLE named_queue IN SHARE ROW EXCLUSIVE MODE;

-- name: lock_caps
LOCK TABLE cap_lock IN EXCLUSIVE MODE;

-- name: commit_durably
SET LOCAL synchronous_commit = on;

-- name: take_claim_turn
CALL take_claim_turn(
    %(worker)s::text, %(limit)s::bigint, %(lease)s::bigint, %(queues)s::text[], %(now)s::bigint, %(ticket)s::bigint,
    NULL::boolean
);

-- name: end_claim_turn
SELECT pg_advisory_unlock('claim_lock'::regclass::oid::bigint);

-- name: end_all_turns
SELECT pg_advisory_unlock_all();

-- name: search_path
SELECT current_setting('search_path');

-- name: set_search_path
SELECT set_config('search_path', %(path)s, true);

-- name: notify
SELECT pg_notify(%(channel)s, '');

-- name: backend
SELECT pg_backend_pid();

-- name: synchronous
SELECT current_setting('synchronous_commit');

-- name: now
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
