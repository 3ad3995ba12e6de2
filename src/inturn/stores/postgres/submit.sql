-- Checks and submits. {checked_counter} stands for the query of that name: a customer's counter after one check
-- (`PriorityPolicy.check`), with its row locked and the clock read after that. OFFSET 0 lets the clock be read once.
--
-- A submit is one statement: `checked` is the counter, `counter_saved` writes it, `documents_added` are the documents,
-- `lane_log_added` what the next claim has to know, `events_added` the event.

-- name: policy_and_time
SELECT policy, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM queue_state;

-- name: checked_counter
SELECT
    id, now, CASE WHEN now - updated_at <= %(interval)s THEN count - 1 ELSE 0 END AS first,
    CASE WHEN updated_at - now BETWEEN 1 AND %(interval)s THEN updated_at ELSE now END AS updated_at
FROM (
    SELECT
        locked.id, count, updated_at,
        coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
    FROM (SELECT id, count, updated_at FROM customer WHERE name = %(customer)s FOR NO KEY UPDATE) AS locked, queue_state
    WHERE policy = coalesce(%(policy)s::bigint, policy)
    OFFSET 0
) AS instant;

-- name: submit_one
WITH checked AS MATERIALIZED (
    {checked_counter}
), counter_saved AS (
    UPDATE customer SET count = first, updated_at = checked.updated_at FROM checked WHERE customer.id = checked.id
), documents_added AS (
    INSERT INTO document (
        seq, id, customer, level, lane, count, submitted_at, ready_at, metadata, lower_name, cost, max_attempts, name,
        uri, blob, sha256, size, media_type, batch, pages, delay, attempt, state, group_name,
        queue, steps, ahead
    )
    SELECT
        nextval('document_seq'), %(id)s::uuid, id, level, level + CASE %(queue)s::text WHEN 'default' THEN 0 ELSE 10 * queue_number(%(queue)s::text) END
            + CASE WHEN %(group_name)s::text IS NULL THEN 0 ELSE 1000 * group_number(id, %(group_name)s::text) END,
        first, now, now, %(metadata)s, %(lower_name)s, %(cost)s,
        %(max_attempts)s::int, %(name)s, %(uri)s, %(blob)s, %(sha256)s, %(size)s, %(media_type)s, %(batch)s, %(pages)s,
        0, 0, 'waiting', %(group_name)s::text, %(queue)s::text, %(steps)s::text,
        substr(%(steps)s::text, position(',' IN %(steps)s::text) + 1)
    FROM (
        SELECT
            *, 1 + cardinality(%(thresholds)s::bigint[]) - width_bucket(first, %(thresholds)s::bigint[]) AS level
        FROM checked
    ) AS with_level
    RETURNING customer, lane, seq, ready_at, cost
), lane_log_added AS (
    INSERT INTO lane_log (customer, kind, level, n, seq, ready_at, cost)
    SELECT customer, 'joined', lane, 1, seq, ready_at, cost FROM documents_added
), events_added AS (
    INSERT INTO event_outbox (at, kind, customers, documents, queues)
    SELECT
        now, 'submitted', ARRAY[%(customer)s::text], ARRAY[%(id)s::uuid],
        CASE WHEN %(queue)s::text <> 'default' THEN ARRAY[%(queue)s::text] END
    FROM checked
)
SELECT first, now FROM checked;

-- name: submit_many
WITH checked AS MATERIALIZED (
    {checked_counter}
), counter_saved AS (
    UPDATE customer SET count = first - (%(n)s - 1), updated_at = checked.updated_at
    FROM checked WHERE customer.id = checked.id
), documents_added AS (
    INSERT INTO document (
        seq, id, customer, level, lane, count, submitted_at, ready_at, metadata, lower_name, cost, max_attempts,
        start_by, name, uri, blob, sha256, size, media_type, batch, pages, delay, attempt, state, due_at, delayed_at,
        group_name, queue, steps, ahead
    )
    SELECT
        nextval('document_seq'), id, customer, level, level + CASE queue WHEN 'default' THEN 0 ELSE 10 * queue_number(queue) END
            + CASE WHEN group_name IS NULL THEN 0 ELSE 1000 * group_number(customer, group_name) END,
        count, now, now, nullif(metadata, ''), lower_name,
        cost, max_attempts, start_by, name, uri, blob, sha256, size, media_type, batch, pages, delay, 0,
        CASE WHEN delay > 0 THEN 'delayed' ELSE 'waiting' END, CASE WHEN delay > 0 THEN now + delay END,
        CASE WHEN delay > 0 THEN now END, group_name, queue, steps, substr(steps, position(',' IN steps) + 1)
    FROM (
        SELECT
            item.*, checked.id AS customer, now, first - (position - 1) AS count,
            1 + cardinality(%(thresholds)s::bigint[])
                - width_bucket(first - (position - 1), %(thresholds)s::bigint[]) AS level,
            coalesce(own_cost, %(same_cost)s) AS cost,
            coalesce(own_max_attempts, %(same_max_attempts)s::int) AS max_attempts,
            coalesce(own_delay, %(same_delay)s) AS delay, coalesce(own_queue, %(same_queue)s::text) AS queue,
            coalesce(own_steps, %(same_steps)s::text) AS steps
        FROM checked, ROWS FROM (
            unnest(
                %(id)s::uuid[], %(lower_name)s::text[], %(cost)s::double precision[], %(max_attempts)s::int[],
                %(start_by)s::bigint[], %(name)s::text[], %(uri)s::text[], %(blob)s::text[], %(sha256)s::text[],
                %(size)s::bigint[], %(media_type)s::text[], %(batch)s::text[], %(pages)s::bigint[], %(delay)s::bigint[],
                %(group_name)s::text[], %(queue)s::text[], %(steps)s::text[]
            ),
            unnest(string_to_array(%(metadata)s::text, chr(31)))
        ) WITH ORDINALITY AS item (
            id, lower_name, own_cost, own_max_attempts, start_by, name, uri, blob, sha256, size, media_type, batch, pages,
            own_delay, group_name, own_queue, own_steps, metadata, position
        )
    ) AS new_document
    RETURNING seq, lane, count, due_at
), lane_log_added AS (
    INSERT INTO lane_log (customer, kind, level, n, seq, ready_at, cost)
    SELECT
        id, 'joined', lane, n, seq, now,
        coalesce((%(cost)s::double precision[])[first - highest + 1], %(same_cost)s)
    FROM checked, (
        SELECT lane, count(*) AS n, min(seq) AS seq, max(count) AS highest FROM documents_added WHERE due_at IS NULL
        GROUP BY lane ORDER BY seq
    ) AS first_of_lane
    UNION ALL
    SELECT id, 'due', NULL, NULL, NULL, now + %(soonest_delay)s::bigint, NULL FROM checked
    WHERE %(soonest_delay)s::bigint IS NOT NULL
    UNION ALL
    SELECT id, 'start_by', NULL, NULL, NULL, %(soonest_start_by)s::bigint, NULL FROM checked
    WHERE %(soonest_start_by)s::bigint IS NOT NULL
), events_added AS (
    INSERT INTO event_outbox (at, kind, customers, documents, queues)
    SELECT
        now, 'submitted', ARRAY[%(customer)s::text], %(id)s::uuid[],
        coalesce(%(queue)s::text[], CASE WHEN %(same_queue)s::text <> 'default' THEN ARRAY[%(same_queue)s::text] END)
    FROM checked
)
SELECT first, now FROM checked;

-- name: allocate_seqs
SELECT nextval('document_seq') FROM generate_series(1, %(n)s);

-- name: add_parts
INSERT INTO document (
    seq, id, customer, level, lane, count, submitted_at, ready_at, metadata, lower_name, cost, max_attempts,
    start_by, name, uri, blob, sha256, size, media_type, batch, pages, delay, attempt, state, due_at, delayed_at,
    group_name, queue, steps, ahead, parent, unended_parent, part, split_step
)
SELECT
    seq, id, %(customer)s, level, lane, count, %(now)s, %(now)s, metadata, lower_name, cost, max_attempts, start_by, name,
    uri, blob, sha256, size, media_type, batch, pages, delay, 0, CASE WHEN delay > 0 THEN 'delayed' ELSE 'waiting' END,
    CASE WHEN delay > 0 THEN %(now)s::bigint + delay END, CASE WHEN delay > 0 THEN %(now)s::bigint END, group_name, queue,
    steps, ahead, %(parent)s::uuid, %(parent)s::uuid, part, %(split_step)s
FROM unnest(
    %(seq)s::bigint[], %(id)s::uuid[], %(level)s::int[], %(lane)s::int[], %(count)s::bigint[], %(metadata)s::text[],
    %(lower_name)s::text[], %(cost)s::double precision[], %(max_attempts)s::int[], %(start_by)s::bigint[],
    %(name)s::text[], %(uri)s::text[], %(blob)s::text[], %(sha256)s::text[], %(size)s::bigint[], %(media_type)s::text[],
    %(batch)s::text[], %(pages)s::bigint[], %(delay)s::bigint[], %(group_name)s::text[], %(queue)s::text[],
    %(steps)s::text[], %(ahead)s::text[], %(part)s::int[]
) AS item (
    seq, id, level, lane, count, metadata, lower_name, cost, max_attempts, start_by, name, uri, blob, sha256, size,
    media_type, batch, pages, delay, group_name, queue, steps, ahead, part
);

-- name: lock_customer
SELECT id, count, updated_at, settings FROM customer WHERE name = %(name)s FOR NO KEY UPDATE;

-- name: lock_customers
SELECT id, count, updated_at FROM customer WHERE id = ANY (%(id)s::bigint[]) ORDER BY id FOR NO KEY UPDATE;

-- name: lock_free_customers
SELECT name FROM customer WHERE id = ANY (ARRAY(SELECT id FROM customer WHERE name = ANY (%(names)s::text[])))
ORDER BY id FOR NO KEY UPDATE SKIP LOCKED;

-- name: add_customer
INSERT INTO customer (name, lower_name) VALUES (%(name)s, %(lower)s) ON CONFLICT DO NOTHING;

-- name: customer_names
SELECT id, name FROM customer WHERE id = ANY (%(id)s::bigint[]);

-- name: save_idempotency_key
INSERT INTO idempotency_key (customer, key, fingerprint, at, answer)
VALUES (%(customer)s, %(key)s, %(fingerprint)s, %(at)s, %(answer)s)
ON CONFLICT (customer, key) DO UPDATE SET fingerprint = excluded.fingerprint, at = excluded.at, answer = excluded.answer;
