-- The queries of the PostgreSQL store, by name; lists and counts are in reading.sql, the map of the tables is in
-- migrations/0001_begin.sql. Queries that do the same as in SQLite have the same name.
-- Writers plan with sequential scans, bitmaps and sorts off and with one plan for all values (`settings`): the plan is
-- the same with statistics or without, and a LIMIT need not be a constant for lines to be read in the order of an index.
-- A claim is committed with the statement that writes it down, so that one says itself that every document taken was waiting:
-- otherwise `ordered` would be null, which its column refuses.
-- Where many rows go at once, each is looked up in its index first (LIMIT keeps it so) and deleted by its place: a join with a
-- table that was empty when it was last analyzed would compare every row with every other. The row of a line is
-- first looked for where it was read, which takes no index; it says itself whether it is the one, for VACUUM FULL moves rows.
-- Where equal customers and lines would do, rows are compared: no index but the one meant sorts them so.
-- {schema} stands for the name of the queue's schema, {local} for LOCAL where a pooler shares sessions, {lowered} for the
-- query of that name: a customer's counter after one check (`PriorityPolicy.check`), its row locked, the clock read after
-- that. OFFSET 0 lets the clock be read once.

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

-- name: begin_moves
BEGIN; {settings} LOCK TABLE capping IN ROW SHARE MODE;

-- name: begin_intake
BEGIN; {settings} {lock_customer}; {intake};

-- name: begin_at_once
BEGIN; {settings}

-- name: begin_claim
BEGIN ISOLATION LEVEL REPEATABLE READ; {settings}
SET LOCAL synchronous_commit = off;
LOCK TABLE claiming IN EXCLUSIVE MODE;

-- name: begin_read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {settings}
SET LOCAL enable_seqscan = on; SET LOCAL enable_bitmapscan = on; SET LOCAL enable_sort = on;
SET LOCAL plan_cache_mode = force_custom_plan;

-- name: begin_glance
BEGIN READ ONLY; {settings}

-- name: lock_claims
LOCK TABLE claiming IN EXCLUSIVE MODE;

-- name: lock_caps
LOCK TABLE capping IN EXCLUSIVE MODE;

-- name: commit_surely
SET LOCAL synchronous_commit = on;

-- name: commit
COMMIT;

-- name: flush
COMMIT; BEGIN; {sure} SELECT pg_logical_emit_message(true, 'inturn', ''); COMMIT;

-- name: search_path
SELECT current_setting('search_path');

-- name: set_search_path
SELECT set_config('search_path', %(path)s, true);

-- name: ring
SELECT pg_notify(%(channel)s, '');

-- name: backend
SELECT pg_backend_pid();

-- name: synchronous
SELECT current_setting('synchronous_commit');

-- name: now
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: queue
WITH newest AS MATERIALIZED (SELECT * FROM turns ORDER BY version DESC LIMIT 1)
SELECT
    queue.policy, newest.ordered, newest.standing, newest.deadlines, newest.version, newest.fence, newest.reserved,
    queue.paused_by, EXISTS (SELECT 1 FROM alive), EXISTS (SELECT 1 FROM limits),
    pg_snapshot_xmax(newest.folded) > pg_snapshot_xmax(pg_current_snapshot()),
    EXISTS (SELECT 1 FROM line_change WHERE xid >= pg_snapshot_xmax((SELECT folded FROM newest)))
    OR EXISTS (
        SELECT 1 FROM line_change WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip((SELECT folded FROM newest))))
    ),
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM queue, newest;

-- name: standing
SELECT standing FROM turns ORDER BY version DESC LIMIT 1;

-- name: intake
SELECT policy, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM queue;

-- name: save_claim
WITH taken AS (
    SELECT * FROM unnest(%(owner)s::bigint[], %(line)s::int[], %(seq)s::bigint[], %(fence)s::bigint[])
    AS taken (customer, line, seq, fence)
), started AS (
    UPDATE document SET
        state = 'running', attempt = attempt + 1, started_at = %(now)s, lease_until = %(until)s, look_at = %(until)s,
        fence = taken.fence, worker = %(worker)s, settled = NULL, leased_at = %(now)s, doubted_at = NULL,
        began_at = NULL, worked = NULL
    FROM taken WHERE document.seq = taken.seq AND state = 'waiting'
    RETURNING
        id, '', document.seq, level, count, state, submitted_at, ready_at, due_at, started_at, finished_at, attempt,
        document.fence, worker, lease_until, document.line, error, name, uri, blob, sha256, size, media_type, batch,
        metadata, cost, delay, start_by, max_attempts, pages, began_at, worked, document.customer, lower_name
), gone AS (
    DELETE FROM returned WHERE ctid = ANY (ARRAY(
        SELECT row.at FROM taken CROSS JOIN LATERAL (
            SELECT ctid AS at FROM returned
            WHERE returned.customer = taken.customer AND returned.line = taken.line AND returned.seq = taken.seq LIMIT 1
        ) AS row
    ))
), runs AS (
    INSERT INTO running (look_at, seq, customer) SELECT %(until)s, seq, customer FROM taken
), told AS (
    INSERT INTO news (at, kind, customers, documents, operator, why, detail)
    SELECT
        %(now)s, kind, customers::text[], coalesce(documents::uuid[], ARRAY(SELECT id FROM started ORDER BY fence)),
        operator, why, detail
    FROM unnest(
        %(kind)s::text[], %(customers)s::text[], %(documents)s::text[], %(operator)s::text[], %(why)s::text[],
        %(detail)s::text[]
    ) AS told (kind, customers, documents, operator, why, detail)
), left_behind AS (
    DELETE FROM line WHERE ctid = ANY (ARRAY(
        SELECT coalesce(
            (
                SELECT ctid FROM line WHERE ctid = old.at
                AND ARRAY[line.customer, line.level, line.version] = ARRAY[old.customer, old.level, old.version]
            ),
            (
                SELECT ctid FROM line
                WHERE line.customer = old.customer AND line.level = old.level AND line.version = old.version LIMIT 1
            )
        )
        FROM unnest(%(old_customer)s::bigint[], %(old_level)s::int[], %(old_version)s::bigint[], %(old_at)s::tid[])
            AS old (customer, level, version, at)
    ))
), stand AS (
    INSERT INTO line (
        customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front,
        out_of_turn_at, place, tie, version
    )
    SELECT each.*, %(version)s + 1 FROM unnest(
        %(customer)s::bigint[], %(level)s::int[], %(weight)s::double precision[], %(turn)s::bigint[],
        %(stamp)s::bigint[], %(waiting)s::bigint[], %(head_seq)s::bigint[], %(head_ready_at)s::bigint[],
        %(head_cost)s::double precision[], %(filed)s::boolean[], %(front)s::bigint[],
        %(out_of_turn_at)s::bigint[], %(place)s::bigint[], %(tie)s::bigint[]
    ) AS each
), before AS (
    DELETE FROM turns WHERE version = %(version)s RETURNING folded
), after AS (
    INSERT INTO turns (version, ordered, standing, deadlines, fence, reserved, folded)
    SELECT
        %(version)s + 1, CASE (SELECT count(*) FROM started) WHEN cardinality(%(seq)s::bigint[]) THEN %(ordered)s END,
        %(standing)s, %(bounds)s, %(last_fence)s, %(reserved)s,
        CASE WHEN %(folds)s THEN pg_current_snapshot() ELSE folded END
    FROM before
)
SELECT * FROM started;

-- name: live
INSERT INTO alive (one) VALUES (1) ON CONFLICT DO NOTHING;

-- name: order_lines
UPDATE line SET
    place = CASE WHEN %(fair)s THEN turn ELSE coalesce(head_seq, 0) END, tie = CASE WHEN %(fair)s THEN stamp ELSE 0 END;

-- name: pause
UPDATE queue SET paused_by = %(by)s, paused_why = %(why)s;

-- name: paused
SELECT paused_by, paused_why FROM queue WHERE paused_by IS NOT NULL;

-- name: policy
SELECT number, settings, at, operator, why FROM policy WHERE number = %(number)s;

-- name: policies
SELECT number, settings, at, operator, why FROM policy ORDER BY number DESC;

-- name: policy_number
SELECT policy FROM queue;

-- name: lock_policy
SELECT policy FROM queue FOR UPDATE;

-- name: add_policy
INSERT INTO policy (number, settings, at, operator, why) VALUES (%(number)s, %(settings)s, %(at)s, %(by)s, %(why)s);

-- name: use_policy
UPDATE queue SET policy = %(number)s;

-- name: begin_policy
INSERT INTO policy (number, settings, at, operator, why)
VALUES (1, %(settings)s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, %(by)s, %(why)s)
ON CONFLICT DO NOTHING;

-- name: begin_queue
INSERT INTO queue (one, policy) VALUES (1, 1) ON CONFLICT DO NOTHING;

-- name: begin_turns
INSERT INTO turns (version, ordered, standing, deadlines, fence, reserved)
SELECT 0, 'fair', %(standing)s, %(bounds)s, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM turns);

-- name: begin_numbering
INSERT INTO numbering (one, last) VALUES (1, 0) ON CONFLICT DO NOTHING;

-- name: customer
SELECT id, count, updated_at, settings FROM customer WHERE name = %(name)s;

-- name: lock_customer
SELECT id, count, updated_at, settings FROM customer WHERE name = %(name)s FOR NO KEY UPDATE;

-- name: lock_customers
SELECT id, name, count, updated_at FROM customer WHERE id = ANY (%(ids)s::bigint[]) ORDER BY id FOR NO KEY UPDATE;

-- name: lock_free_customers
SELECT name FROM customer WHERE name = ANY (%(names)s::text[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED;

-- name: add_customer
INSERT INTO customer (name, lower_name) VALUES (%(name)s, %(lower)s) ON CONFLICT DO NOTHING;

-- name: customer_names
SELECT id, name FROM customer WHERE id = ANY (%(ids)s::bigint[]);

-- name: set_counter
UPDATE customer SET count = %(count)s, updated_at = %(updated_at)s WHERE id = %(id)s;

-- name: set_settings
UPDATE customer SET settings = %(settings)s, paused = %(paused)s, capped = %(capped)s, keeps = %(keeps)s
WHERE id = %(id)s;

-- name: capped_of
SELECT id FROM customer WHERE id = ANY (%(ids)s::bigint[]) AND capped;

-- name: running_of
SELECT customer, count(*) FROM running WHERE customer = ANY (%(ids)s::bigint[]) GROUP BY customer;

-- name: key
SELECT fingerprint, at, answer FROM key WHERE customer = %(customer)s AND key = %(key)s;

-- name: keep_key
INSERT INTO key (customer, key, fingerprint, at, answer)
VALUES (%(customer)s, %(key)s, %(fingerprint)s, %(at)s, %(answer)s)
ON CONFLICT (customer, key) DO UPDATE SET fingerprint = excluded.fingerprint, at = excluded.at, answer = excluded.answer;

-- name: lowered
SELECT
    id, now, CASE WHEN now - updated_at <= %(interval)s THEN count - 1 ELSE 0 END AS first,
    CASE WHEN updated_at - now BETWEEN 1 AND %(interval)s THEN updated_at ELSE now END AS updated_at
FROM (
    SELECT
        locked.id, count, updated_at,
        coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
    FROM (SELECT id, count, updated_at FROM customer WHERE name = %(customer)s FOR NO KEY UPDATE) AS locked, queue
    WHERE policy = coalesce(%(policy)s::bigint, policy)
    OFFSET 0
) AS instant;

-- name: take_in_one
WITH lowered AS MATERIALIZED (
    {lowered}
), counted AS (
    UPDATE customer SET count = first, updated_at = lowered.updated_at FROM lowered WHERE customer.id = lowered.id
), kept AS (
    INSERT INTO document (
        seq, id, customer, level, line, count, submitted_at, ready_at, metadata, lower_name, cost, max_attempts, name,
        uri, blob, sha256, size, media_type, batch, pages, delay, attempt, state
    )
    SELECT
        nextval('document_seq'), %(id)s::uuid, id, level, level, first, now, now, %(metadata)s, %(lower_name)s, %(cost)s,
        %(max_attempts)s::int, %(name)s, %(uri)s, %(blob)s, %(sha256)s, %(size)s, %(media_type)s, %(batch)s, %(pages)s,
        0, 0, 'waiting'
    FROM (
        SELECT
            *, 1 + cardinality(%(thresholds)s::bigint[]) - width_bucket(first, %(thresholds)s::bigint[]) AS level
        FROM lowered
    ) AS checked
    RETURNING customer, line, seq, ready_at, cost
), joined AS (
    INSERT INTO line_change (customer, kind, level, n, seq, ready_at, cost)
    SELECT customer, 'joined', line, 1, seq, ready_at, cost FROM kept
), told AS (
    INSERT INTO news (at, kind, customers, documents)
    SELECT now, 'submitted', ARRAY[%(customer)s::text], ARRAY[%(id)s::uuid] FROM lowered
)
SELECT first, now FROM lowered;

-- name: take_in
WITH lowered AS MATERIALIZED (
    {lowered}
), counted AS (
    UPDATE customer SET count = first - (%(n)s - 1), updated_at = lowered.updated_at
    FROM lowered WHERE customer.id = lowered.id
), kept AS (
    INSERT INTO document (
        seq, id, customer, level, line, count, submitted_at, ready_at, metadata, lower_name, cost, max_attempts,
        start_by, name, uri, blob, sha256, size, media_type, batch, pages, delay, attempt, state, due_at, delayed_at
    )
    SELECT
        nextval('document_seq'), id, customer, level, level, count, now, now, nullif(metadata, ''), lower_name,
        cost, max_attempts, start_by, name, uri, blob, sha256, size, media_type, batch, pages, delay, 0,
        CASE WHEN delay > 0 THEN 'delayed' ELSE 'waiting' END, CASE WHEN delay > 0 THEN now + delay END,
        CASE WHEN delay > 0 THEN now END
    FROM (
        SELECT
            each.*, lowered.id AS customer, now, first - (place - 1) AS count,
            1 + cardinality(%(thresholds)s::bigint[])
                - width_bucket(first - (place - 1), %(thresholds)s::bigint[]) AS level,
            coalesce(each_cost, %(same_cost)s) AS cost, coalesce(attempts, %(same_max_attempts)s::int) AS max_attempts,
            coalesce(each_delay, %(same_delay)s) AS delay
        FROM lowered, ROWS FROM (
            unnest(
                %(id)s::uuid[], %(lower_name)s::text[], %(cost)s::double precision[], %(max_attempts)s::int[],
                %(start_by)s::bigint[], %(name)s::text[], %(uri)s::text[], %(blob)s::text[], %(sha256)s::text[],
                %(size)s::bigint[], %(media_type)s::text[], %(batch)s::text[], %(pages)s::bigint[], %(delay)s::bigint[]
            ),
            unnest(string_to_array(%(metadata)s::text, chr(31)))
        ) WITH ORDINALITY AS each (
            id, lower_name, each_cost, attempts, start_by, name, uri, blob, sha256, size, media_type, batch, pages,
            each_delay, metadata, place
        )
    ) AS given
    RETURNING seq, line, count, due_at
), joined AS (
    INSERT INTO line_change (customer, kind, level, n, seq, ready_at, cost)
    SELECT
        id, 'joined', line, n, seq, now,
        coalesce((%(cost)s::double precision[])[first - highest + 1], %(same_cost)s)
    FROM lowered, (
        SELECT line, count(*) AS n, min(seq) AS seq, max(count) AS highest FROM kept WHERE due_at IS NULL
        GROUP BY line ORDER BY seq
    ) AS begun
    UNION ALL
    SELECT id, 'due', NULL, NULL, NULL, now + %(soonest_delay)s::bigint, NULL FROM lowered WHERE %(soonest_delay)s::bigint IS NOT NULL
    UNION ALL
    SELECT id, 'start_by', NULL, NULL, NULL, %(soonest_start_by)s::bigint, NULL FROM lowered
    WHERE %(soonest_start_by)s::bigint IS NOT NULL
), told AS (
    INSERT INTO news (at, kind, customers, documents)
    SELECT now, 'submitted', ARRAY[%(customer)s::text], %(id)s::uuid[] FROM lowered
)
SELECT first, now FROM lowered;

-- name: add_changes
INSERT INTO line_change (customer, kind, level, n, seq, ready_at, cost, settings)
SELECT * FROM unnest(
    %(customer)s::bigint[], %(kind)s::text[], %(level)s::int[], %(n)s::bigint[], %(seq)s::bigint[],
    %(ready_at)s::bigint[], %(cost)s::double precision[], %(settings)s::text[]
);

-- name: add_news
INSERT INTO news (at, kind, customers, documents, operator, why, detail)
SELECT %(at)s, kind, customers::text[], documents::uuid[], operator, why, detail FROM unnest(
    %(kind)s::text[], %(customers)s::text[], %(documents)s::text[], %(operator)s::text[], %(why)s::text[],
    %(detail)s::text[]
) AS told (kind, customers, documents, operator, why, detail);

-- name: unnumbered
SELECT EXISTS (
    SELECT 1 FROM news, numbering
    WHERE xid >= pg_snapshot_xmax(seen) OR xid = ANY (ARRAY(SELECT pg_snapshot_xip(seen)))
        OR pg_snapshot_xmax(seen) > pg_snapshot_xmax(pg_current_snapshot())
);

-- name: lock_numbering
SELECT last FROM numbering FOR UPDATE;

-- name: number_news
WITH gone AS (
    DELETE FROM news USING numbering
    WHERE xid >= pg_snapshot_xmax(seen) OR xid = ANY (ARRAY(SELECT pg_snapshot_xip(seen) FROM numbering))
        OR pg_snapshot_xmax(seen) > pg_snapshot_xmax(pg_current_snapshot())
    RETURNING news.*
), told AS (
    SELECT
        id, min(place) AS first, at, kind, coalesce(each.customer, customers[1]) AS customer,
        array_agg(document ORDER BY place) FILTER (WHERE document IS NOT NULL) AS documents, operator, why, detail
    FROM gone CROSS JOIN LATERAL unnest(customers, documents) WITH ORDINALITY AS each (customer, document, place)
    GROUP BY id, at, kind, coalesce(each.customer, customers[1]), operator, why, detail
), put AS (
    INSERT INTO event (number, at, kind, customer, documents, operator, why, detail)
    SELECT
        (SELECT last FROM numbering) + row_number() OVER (ORDER BY id, first), at, kind, customer,
        coalesce(documents, '{}'), operator, why, detail
    FROM told
    RETURNING 1
)
UPDATE numbering SET last = last + (SELECT count(*) FROM put), seen = pg_current_snapshot();

-- name: fold
WITH newest AS MATERIALIZED (
    SELECT folded FROM turns ORDER BY version DESC LIMIT 1
), found AS MATERIALIZED (
    SELECT ctid AS at FROM line_change WHERE xid >= pg_snapshot_xmax((SELECT folded FROM newest))
    UNION ALL
    SELECT ctid FROM line_change WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip((SELECT folded FROM newest))))
)
DELETE FROM line_change USING found WHERE line_change.ctid = found.at
RETURNING number, customer, kind, level, n, seq, ready_at, cost, settings;

-- name: fold_all
DELETE FROM line_change RETURNING number, customer, kind, level, n, seq, ready_at, cost, settings;

-- name: anything_to_claim
WITH newest AS MATERIALIZED (SELECT * FROM turns ORDER BY version DESC LIMIT 1)
SELECT
    queue.paused_by IS NULL, newest.standing,
    EXISTS (SELECT 1 FROM line_change WHERE xid >= pg_snapshot_xmax((SELECT folded FROM newest)))
    OR EXISTS (
        SELECT 1 FROM line_change WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip((SELECT folded FROM newest))))
    )
    OR pg_snapshot_xmax(newest.folded) > pg_snapshot_xmax(pg_current_snapshot()),
    newest.deadlines, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM queue, newest;

-- name: deadlines
SELECT
    (SELECT min(lease_until) FROM running JOIN document ON document.seq = running.seq),
    (SELECT due_at FROM document WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1),
    (SELECT min(rate_closed_until) FROM limits WHERE rate_closed_until IS NOT NULL);

-- name: late_to_start
SELECT seq, customer, state, level, line, attempt, max_attempts, fence, settled, cost, start_by, id,
    started_at, worker
FROM document
WHERE start_by BETWEEN %(floor)s AND %(now)s AND attempt = 0 AND state IN ('waiting', 'delayed')
ORDER BY start_by, seq LIMIT %(limit)s;

-- name: next_start_by
SELECT start_by FROM document WHERE start_by > %(now)s ORDER BY start_by LIMIT 1;

-- name: look_later
WITH later AS (
    UPDATE document SET look_at = lease_until FROM running
    WHERE running.look_at BETWEEN %(floor)s AND %(now)s AND document.seq = running.seq AND lease_until > %(now)s
    RETURNING running.look_at AS before, document.seq, document.look_at
)
UPDATE running SET look_at = later.look_at FROM later
WHERE running.look_at = later.before AND running.seq = later.seq;

-- name: lost_leases
SELECT
    document.seq, document.customer, state, level, line, attempt, max_attempts, fence, settled, cost, start_by, id,
    started_at, worker
FROM running JOIN document ON document.seq = running.seq
WHERE running.look_at BETWEEN %(floor)s AND %(now)s AND lease_until <= %(now)s
ORDER BY lease_until, document.seq LIMIT %(limit)s;

-- name: next_look
SELECT look_at FROM running WHERE look_at > %(now)s ORDER BY look_at LIMIT 1;

-- name: due_documents
SELECT seq, customer, state, level, line, attempt, max_attempts, fence, settled, cost, start_by, id,
    started_at, worker
FROM document
WHERE due_at BETWEEN %(floor)s AND %(now)s ORDER BY due_at, seq LIMIT %(limit)s;

-- name: next_due
SELECT due_at FROM document WHERE due_at > %(now)s ORDER BY due_at LIMIT 1;

-- name: due_rates
SELECT limits.customer FROM limits JOIN customer ON customer.id = limits.customer
WHERE rate_closed_until IS NOT NULL AND rate_closed_until <= %(now)s
ORDER BY rate_closed_until, name LIMIT %(limit)s;

-- name: next_rate
SELECT rate_closed_until FROM limits
WHERE rate_closed_until IS NOT NULL AND rate_closed_until > %(now)s ORDER BY rate_closed_until LIMIT 1;

-- name: leases_ahead
SELECT document.seq, leased_at, lease_until, doubted_at FROM running JOIN document ON document.seq = running.seq
WHERE leased_at > %(now)s ORDER BY document.seq;

-- name: delays_ahead
SELECT seq, delayed_at, due_at, doubted_at FROM document WHERE due_at IS NOT NULL AND delayed_at > %(now)s ORDER BY seq;

-- name: rates_ahead
SELECT customer, settings, whole_at FROM limits WHERE rate_closed_until > %(now)s ORDER BY customer;

-- name: set_lease_term
WITH before AS (
    SELECT seq, look_at FROM document WHERE seq = %(seq)s
), changed AS (
    UPDATE document SET
        lease_until = %(ends_at)s, look_at = least(document.look_at, %(ends_at)s), doubted_at = %(doubted_at)s
    FROM before WHERE document.seq = before.seq
    RETURNING document.seq, before.look_at AS before, document.look_at
)
UPDATE running SET look_at = changed.look_at FROM changed
WHERE running.look_at = changed.before AND running.seq = changed.seq;

-- name: set_delay_term
UPDATE document SET due_at = %(ends_at)s, doubted_at = %(doubted_at)s WHERE seq = %(seq)s;

-- name: maintenance
SELECT maintenance FROM queue;

-- name: record_maintenance
UPDATE queue SET maintenance = %(record)s;

-- name: count_ended_before
SELECT count(*) FROM ended JOIN document ON document.seq = ended.seq
WHERE ended.finished_at < %(before)s AND ended.seq <= %(up_to)s
    AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps);

-- name: count_ended_before_of
SELECT count(*) FROM document WHERE customer = %(customer)s AND finished_at IS NOT NULL AND finished_at < %(before)s
    AND seq <= %(up_to)s;

-- name: lines_of
SELECT newest.* FROM unnest(%(customer)s::bigint[], %(level)s::int[]) AS wanted (customer, level)
CROSS JOIN LATERAL (
    SELECT
        customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front,
        out_of_turn_at, version, ctid::text
    FROM line
    WHERE (line.customer, line.level, version) >= (wanted.customer, wanted.level, 0)
        AND (line.customer, line.level, version) <= (wanted.customer, wanted.level, 9223372036854775807)
    ORDER BY line.customer DESC, line.level DESC, version DESC LIMIT 1
) AS newest;

-- name: lowest_lines
SELECT
    customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front, out_of_turn_at,
    version, ctid::text
FROM line
WHERE filed AND level = %(level)s AND (place, tie) > (%(seen)s, %(tie)s)
ORDER BY place, tie LIMIT %(limit)s;

-- name: oldest_lines
SELECT
    customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front, out_of_turn_at,
    version, ctid::text
FROM line
WHERE filed AND level = %(level)s AND (head_ready_at, head_seq) > (%(seen)s, %(tie)s)
ORDER BY head_ready_at, head_seq LIMIT %(limit)s;

-- name: oldest_rested_lines
SELECT
    customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front, out_of_turn_at,
    version, ctid::text
FROM line
WHERE filed AND level = %(level)s AND (head_ready_at, head_seq) > (%(seen)s, %(tie)s)
    AND (out_of_turn_at <= %(rested_since)s OR out_of_turn_at > %(now)s)
ORDER BY head_ready_at, head_seq LIMIT %(limit)s;

-- name: forget_spent
DELETE FROM line
WHERE waiting = 0 AND level = %(level)s AND turn <= %(turn)s AND out_of_turn_at <= %(rested_since)s;

-- name: limits_of
SELECT customer, settings, running, whole_at, rate_closed_until FROM limits WHERE customer = ANY (%(customers)s::bigint[]);

-- name: save_limits
INSERT INTO limits (customer, settings, running, whole_at, rate_closed_until)
VALUES (%(customer)s, %(settings)s, %(running)s, %(whole_at)s, %(rate_closed_until)s)
ON CONFLICT (customer) DO UPDATE SET
    settings = excluded.settings, running = excluded.running, whole_at = excluded.whole_at,
    rate_closed_until = excluded.rate_closed_until;

-- name: waiting_in_lines
SELECT wanted.customer, wanted.level, found.seq, found.ready_at, found.cost, found.is_new
FROM unnest(%(customer)s::bigint[], %(level)s::int[], %(after)s::bigint[], %(front)s::bigint[])
    AS wanted (customer, level, after, front)
CROSS JOIN LATERAL (
    (
        SELECT seq, ready_at, cost, true AS is_new FROM document
        WHERE (document.customer, line, seq) >= (wanted.customer, wanted.level, greatest(wanted.after + 1, wanted.front))
            AND (document.customer, line, seq) < (wanted.customer, wanted.level, 9223372036854775807)
            AND state = 'waiting'
        ORDER BY document.customer, line, seq LIMIT %(limit)s
    )
    UNION ALL
    (
        SELECT seq, ready_at, cost, false FROM returned
        WHERE (returned.customer, line, seq) > (wanted.customer, wanted.level, wanted.after)
            AND (returned.customer, line, seq) < (wanted.customer, wanted.level, 9223372036854775807)
        ORDER BY returned.customer, line, seq LIMIT %(limit)s
    )
) AS found;

-- name: whole_by_id
SELECT * FROM document_view WHERE id = %(id)s::uuid;

-- name: finish_documents
WITH finished AS (
    UPDATE document SET
        state = 'done', finished_at = %(now)s, lease_until = NULL, worker = NULL, error = NULL, settled = 'done',
        result = said.result, began_at = least(started_at + coalesce(said.began_after, 0), greatest(started_at, %(now)s)),
        worked = greatest(0, least(said.worked, %(now)s - started_at - coalesce(said.began_after, 0)))
    FROM unnest(
        %(ids)s::uuid[], %(fences)s::bigint[], %(results)s::text[], %(began_after)s::bigint[], %(worked)s::bigint[]
    ) AS said (id, fence, result, began_after, worked)
    WHERE document.id = said.id AND document.fence = said.fence AND state = 'running'
    RETURNING document.id, customer, seq, look_at
), gone AS (
    DELETE FROM running WHERE ctid = ANY (ARRAY(
        SELECT row.at FROM finished CROSS JOIN LATERAL (
            SELECT ctid AS at FROM running WHERE running.look_at = finished.look_at AND running.seq = finished.seq LIMIT 1
        ) AS row
    ))
), kept AS (
    INSERT INTO ended (finished_at, seq) SELECT %(now)s, seq FROM finished
)
SELECT id, customer, seq, EXISTS (SELECT 1 FROM customer WHERE customer.id = finished.customer AND capped) FROM finished;

-- name: add_files
INSERT INTO file (document, name, blob, size, sha256, media_type)
SELECT * FROM unnest(
    %(document)s::bigint[], %(name)s::text[], %(blob)s::text[], %(size)s::bigint[], %(sha256)s::text[],
    %(media_type)s::text[]
);

-- name: files
SELECT name, blob, size, sha256, media_type FROM file
WHERE document = (SELECT seq FROM document WHERE id = %(id)s::uuid) ORDER BY name;

-- name: known_blobs
SELECT blob FROM document WHERE blob = ANY (%(blobs)s::text[])
UNION
SELECT blob FROM file WHERE blob = ANY (%(blobs)s::text[]);

-- name: see_worker
INSERT INTO worker (name, seen_at, report, at_work) VALUES (%(name)s, %(now)s, %(report)s, %(at_work)s)
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at, report = excluded.report, at_work = excluded.at_work;

-- name: forget_worker
DELETE FROM worker WHERE name = %(name)s;

-- name: forget_silent_workers
DELETE FROM worker WHERE seen_at NOT BETWEEN %(first)s AND %(last)s;

-- name: workers
SELECT report, at_work, seen_at FROM worker ORDER BY name;

-- name: owners_of
SELECT DISTINCT customer FROM document WHERE id = ANY (%(ids)s::uuid[]);

-- name: lock_documents
SELECT seq, customer, state, level, line, attempt, max_attempts, fence, settled, cost, start_by, id,
    started_at, worker
FROM document
WHERE id = ANY (%(ids)s::uuid[]) ORDER BY seq FOR NO KEY UPDATE;

-- name: states_of
SELECT id, fence, state FROM document WHERE id = ANY (%(ids)s::uuid[]);

-- name: wait_again
WITH moved AS (
    UPDATE document SET
        state = 'waiting', ready_at = %(now)s, due_at = NULL, lease_until = NULL, worker = NULL, attempt = %(attempt)s,
        settled = %(settled)s
    WHERE seq = %(seq)s
    RETURNING customer, line, seq, ready_at, cost, look_at
), gone AS (
    DELETE FROM running USING moved WHERE running.look_at = moved.look_at AND running.seq = moved.seq
)
INSERT INTO returned (customer, line, seq, ready_at, cost) SELECT customer, line, seq, ready_at, cost FROM moved;

-- name: record_work
UPDATE document SET began_at = %(began_at)s, worked = %(worked)s WHERE seq = %(seq)s;

-- name: release_document
WITH released AS (
    UPDATE document SET
        state = 'waiting', due_at = NULL, lease_until = NULL, worker = NULL, attempt = attempt - 1,
        settled = 'handed_back'
    WHERE seq = %(seq)s
    RETURNING customer, line, seq, ready_at, cost, look_at
), running_removed AS (
    DELETE FROM running USING released WHERE running.look_at = released.look_at AND running.seq = released.seq
)
INSERT INTO returned (customer, line, seq, ready_at, cost) SELECT customer, line, seq, ready_at, cost FROM released
RETURNING ready_at;

-- name: delay_document
WITH moved AS (
    UPDATE document SET
        state = 'delayed', due_at = %(due_at)s, lease_until = NULL, worker = NULL, error = %(error)s, settled = 'failed',
        delayed_at = %(now)s, doubted_at = NULL
    WHERE seq = %(seq)s
    RETURNING seq, look_at
)
DELETE FROM running USING moved WHERE running.look_at = moved.look_at AND running.seq = moved.seq;

-- name: end_document
WITH moved AS (
    UPDATE document SET
        state = %(state)s, finished_at = %(now)s, due_at = NULL, lease_until = NULL, worker = NULL,
        error = %(error)s, settled = %(settled)s
    WHERE seq = %(seq)s
    RETURNING customer, line, seq, look_at
), gone AS (
    DELETE FROM returned USING moved
    WHERE returned.customer = moved.customer AND returned.line = moved.line AND returned.seq = moved.seq
), stopped AS (
    DELETE FROM running USING moved WHERE running.look_at = moved.look_at AND running.seq = moved.seq
)
INSERT INTO ended (finished_at, seq) SELECT %(now)s, seq FROM moved;

-- name: cancel_document
WITH moved AS (
    UPDATE document SET
        state = 'cancelled', finished_at = %(now)s, due_at = NULL, lease_until = NULL, worker = NULL
    WHERE seq = %(seq)s
    RETURNING customer, line, seq, look_at
), gone AS (
    DELETE FROM returned USING moved
    WHERE returned.customer = moved.customer AND returned.line = moved.line AND returned.seq = moved.seq
), stopped AS (
    DELETE FROM running USING moved WHERE running.look_at = moved.look_at AND running.seq = moved.seq
)
INSERT INTO ended (finished_at, seq) SELECT %(now)s, seq FROM moved;

-- name: begin_again
WITH before AS (
    SELECT seq, finished_at FROM document WHERE seq = %(seq)s
), gone AS (
    DELETE FROM ended USING before WHERE ended.finished_at = before.finished_at AND ended.seq = before.seq
)
UPDATE document SET
    seq = nextval('document_seq'), level = %(level)s, line = %(level)s, count = %(count)s, state = 'waiting',
    ready_at = %(now)s, attempt = 0, start_by = NULL, due_at = NULL, started_at = NULL, finished_at = NULL,
    error = NULL, settled = NULL, began_at = NULL, worked = NULL
WHERE seq = %(seq)s
RETURNING seq;

-- name: expedite_document
WITH before AS (
    SELECT customer, line, seq FROM document WHERE seq = %(seq)s
), gone AS (
    DELETE FROM returned USING before
    WHERE returned.customer = before.customer AND returned.line = before.line AND returned.seq = before.seq
), moved AS (
    UPDATE document SET
        line = 0, due_at = NULL, state = 'waiting',
        ready_at = CASE state WHEN 'delayed' THEN %(now)s ELSE ready_at END
    WHERE seq = %(seq)s
    RETURNING customer, line, seq, ready_at, cost
)
INSERT INTO returned (customer, line, seq, ready_at, cost) SELECT customer, line, seq, ready_at, cost FROM moved
RETURNING ready_at;

-- name: heartbeat
WITH found AS (
    SELECT document.seq, document.look_at AS before
    FROM document JOIN unnest(%(ids)s::uuid[], %(fences)s::bigint[]) AS held (id, fence)
        ON document.id = held.id AND document.fence = held.fence
    WHERE state = 'running' ORDER BY document.seq FOR NO KEY UPDATE OF document
), held AS (
    UPDATE document SET
        lease_until = %(until)s, look_at = least(look_at, %(until)s), leased_at = %(now)s, doubted_at = NULL
    FROM found
    WHERE document.seq = found.seq
    RETURNING id, fence, customer, document.seq, found.before, look_at
), sooner AS (
    UPDATE running SET look_at = held.look_at FROM held
    WHERE running.look_at = held.before AND running.seq = held.seq AND held.before > held.look_at
)
SELECT id, fence, customer, before > look_at FROM held;

-- name: blobs_of
SELECT blob FROM document WHERE customer = %(customer)s AND blob IS NOT NULL
UNION ALL
SELECT file.blob FROM document JOIN file ON file.document = document.seq WHERE document.customer = %(customer)s;

-- name: purge_files
DELETE FROM file USING document WHERE file.document = document.seq AND document.customer = %(customer)s;

-- name: purge_documents
WITH gone AS (
    DELETE FROM document WHERE customer = %(customer)s RETURNING state, line, seq, look_at, finished_at
), waited AS (
    DELETE FROM returned WHERE customer = %(customer)s
), ran AS (
    DELETE FROM running USING gone WHERE running.look_at = gone.look_at AND running.seq = gone.seq
), stood AS (
    DELETE FROM ended USING gone WHERE ended.finished_at = gone.finished_at AND ended.seq = gone.seq
)
SELECT state, line, count(*) FROM gone GROUP BY state, line;

-- name: purge_keys
WITH gone AS (DELETE FROM key WHERE customer = %(customer)s RETURNING 1) SELECT count(*) FROM gone;

-- name: ended_before
SELECT document.seq, blob FROM ended JOIN document ON document.seq = ended.seq
WHERE ended.finished_at < %(before)s AND ended.seq <= %(up_to)s
    AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps)
ORDER BY ended.finished_at, ended.seq LIMIT %(limit)s FOR UPDATE OF document SKIP LOCKED;

-- name: ended_before_of
SELECT seq, blob FROM document
WHERE customer = %(customer)s AND finished_at IS NOT NULL AND finished_at < %(before)s
    AND seq <= %(up_to)s
ORDER BY finished_at, seq LIMIT %(limit)s FOR UPDATE SKIP LOCKED;

-- name: forget_documents
WITH gone AS (DELETE FROM document WHERE seq = ANY (%(seqs)s::bigint[]) RETURNING seq, finished_at)
DELETE FROM ended USING gone WHERE ended.finished_at = gone.finished_at AND ended.seq = gone.seq;

-- name: file_documents
DELETE FROM returned; DELETE FROM running; DELETE FROM ended;
INSERT INTO returned (customer, line, seq, ready_at, cost)
SELECT customer, line, seq, ready_at, cost FROM document WHERE state = 'waiting';
INSERT INTO running (look_at, seq, customer) SELECT look_at, seq, customer FROM document WHERE state = 'running';
INSERT INTO ended (finished_at, seq) SELECT finished_at, seq FROM document WHERE finished_at IS NOT NULL;

-- name: forget_files
DELETE FROM file WHERE document = ANY (%(seqs)s::bigint[]) RETURNING document, blob;

-- name: forget_keys
WITH gone AS (DELETE FROM key WHERE at < %(before)s RETURNING 1) SELECT count(*) FROM gone;

-- name: forget_events
WITH gone AS (
    DELETE FROM event WHERE number IN (
        SELECT number FROM event WHERE operator IS NULL AND at < %(before)s ORDER BY number LIMIT %(limit)s
    ) RETURNING 1
)
SELECT count(*) FROM gone;

-- name: waiting_counts
SELECT customer, line, count(*), min(seq) FROM document WHERE state = 'waiting' GROUP BY 1, 2;

-- name: found_counts
SELECT customer, line, count(*) FROM (
    SELECT document.customer, document.line, seq
    FROM document JOIN line ON line.customer = document.customer AND line.level = document.line
    WHERE state = 'waiting' AND seq >= front
    UNION
    SELECT customer, line, seq FROM returned
) AS found
GROUP BY 1, 2;

-- name: line_counts
SELECT customer, level, waiting FROM line;

-- name: capped_counts
SELECT limits.customer, limits.running, (SELECT count(*) FROM running WHERE running.customer = limits.customer)
FROM limits JOIN customer ON customer.id = limits.customer WHERE customer.capped;

-- name: last_seq
SELECT last_value + CASE WHEN is_called THEN 1 ELSE 0 END FROM document_seq;

-- name: columns
SELECT attname::text FROM pg_attribute
WHERE attrelid = %(table)s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum;

-- name: is_used
SELECT
    EXISTS (SELECT 1 FROM customer) OR EXISTS (SELECT 1 FROM event) OR EXISTS (SELECT 1 FROM news)
    OR EXISTS (SELECT 1 FROM worker) OR (SELECT max(version) FROM turns) > 0;

-- name: clear
DELETE FROM policy; DELETE FROM queue; DELETE FROM turns; DELETE FROM numbering;

-- name: go_on
SELECT setval(pg_get_serial_sequence(%(table)s, %(column)s), %(last)s, false);

-- name: go_on_seq
SELECT setval('document_seq', %(last)s, false);

-- name: migrating
SELECT pg_advisory_xact_lock(hashtext('inturn'), hashtext(%(schema)s));

-- name: make_schema
CREATE SCHEMA IF NOT EXISTS {schema};

-- name: in_schema
SET LOCAL search_path = {schema}, pg_temp;

-- name: schema_version
SELECT coalesce(max(number), 0) FROM {schema}.migration;

-- name: has_begun
SELECT EXISTS (SELECT 1 FROM {schema}.queue);

-- name: queues
SELECT namespace.nspname::text
FROM pg_catalog.pg_class AS migrations
JOIN pg_catalog.pg_class AS policies ON policies.relnamespace = migrations.relnamespace AND policies.relname = 'policy'
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = migrations.relnamespace
WHERE migrations.relname = 'migration' AND migrations.relkind = 'r' ORDER BY 1;
