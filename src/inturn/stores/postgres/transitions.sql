-- Transitions of documents, and the events and lane changes that go with them. Documents are locked in the order of
-- their seq. `requeued`, `running` and `ended` are written in the same statement as the state of their document.
-- Rows to be sorted are fetched first (OFFSET 0 keeps it so): as writers plan without sorts, the planner would otherwise read
-- the whole index that has the order, which is a row for each document of the store.
--
-- `number_events` gives events their numbers: `outbox_removed` are rows of the outbox that no numbering has seen, `grouped`
-- one row for each event and customer.
--
-- Parts are found first and sorted then (OFFSET 0 keeps it so): a scan by seq would look at every document.

-- name: append_to_lane_log
INSERT INTO lane_log (customer, kind, level, n, seq, ready_at, cost, settings, charged, worked)
SELECT * FROM unnest(
    %(customer)s::bigint[], %(kind)s::text[], %(level)s::int[], %(n)s::bigint[], %(seq)s::bigint[],
    %(ready_at)s::bigint[], %(cost)s::double precision[], %(settings)s::text[], %(charged)s::bigint[], %(worked)s::bigint[]
);

-- name: add_events
INSERT INTO event_outbox (at, kind, customers, documents, operator, why, detail, queues)
SELECT %(at)s, kind, customers::text[], documents::uuid[], operator, why, detail, queues::text[] FROM unnest(
    %(kind)s::text[], %(customers)s::text[], %(documents)s::text[], %(operator)s::text[], %(why)s::text[],
    %(detail)s::text[], %(queues)s::text[]
) AS new_event (kind, customers, documents, operator, why, detail, queues);

-- name: has_unnumbered_events
SELECT EXISTS (
    SELECT 1 FROM event_outbox, event_sequence
    WHERE xid >= pg_snapshot_xmax(seen) OR xid = ANY (ARRAY(SELECT pg_snapshot_xip(seen)))
        OR pg_snapshot_xmax(seen) > pg_snapshot_xmax(pg_current_snapshot())
);

-- name: lock_event_sequence
SELECT last FROM event_sequence FOR UPDATE;

-- name: number_events
WITH outbox_removed AS (
    DELETE FROM event_outbox USING event_sequence
    WHERE xid >= pg_snapshot_xmax(seen) OR xid = ANY (ARRAY(SELECT pg_snapshot_xip(seen) FROM event_sequence))
        OR pg_snapshot_xmax(seen) > pg_snapshot_xmax(pg_current_snapshot())
    RETURNING event_outbox.*
), grouped AS (
    SELECT
        id, min(position) AS first, at, kind, coalesce(item.customer, customers[1]) AS customer,
        array_agg(document ORDER BY position) FILTER (WHERE document IS NOT NULL) AS documents, operator, why, detail,
        nullif(coalesce(item.queue, queues[1]), 'default') AS queue
    FROM outbox_removed
        CROSS JOIN LATERAL unnest(customers, documents, queues) WITH ORDINALITY AS item (customer, document, queue, position)
    GROUP BY id, at, kind, coalesce(item.customer, customers[1]), coalesce(item.queue, queues[1]), operator, why, detail
), events_added AS (
    INSERT INTO event (number, at, kind, customer, documents, operator, why, detail, queue)
    SELECT
        (SELECT last FROM event_sequence) + row_number() OVER (ORDER BY id, first), at, kind, customer,
        coalesce(documents, '{}'), operator, why, detail, queue
    FROM grouped
    RETURNING 1
)
UPDATE event_sequence SET last = last + (SELECT count(*) FROM events_added), seen = pg_current_snapshot();

-- name: capped_of
SELECT id FROM customer WHERE id = ANY (%(id)s::bigint[]) AND capped;

-- name: owners_of
SELECT DISTINCT customer FROM document WHERE id = ANY (%(id)s::uuid[]);

-- name: lock_documents
SELECT
    id, seq, customer, state, level, lane, attempt, max_attempts, fence, last_outcome, cost, start_by, started_at, worker,
    charged, lease_until, step, queue, ready_at, parent, count
FROM (
    SELECT id FROM (SELECT id, seq FROM document WHERE id = ANY (%(id)s::uuid[]) OFFSET 0) AS known ORDER BY seq
) AS wanted JOIN document USING (id)
FOR NO KEY UPDATE OF document;

-- name: states_of
SELECT id, fence, state FROM document WHERE id = ANY (%(id)s::uuid[]);

-- name: move_documents
WITH moved AS (
    UPDATE document SET
        state = new.state, first_queue = coalesce(first_queue, document.queue), queue = new.queue, lane = new.lane,
        level = new.level, count = new.count, step = step + 1, ahead = new.ahead,
        ready_at = CASE new.state WHEN 'waiting' THEN %(now)s ELSE ready_at END, attempt = 0, start_by = NULL,
        due_at = NULL, lease_until = NULL, worker = NULL, error = NULL, last_outcome = new.last_outcome,
        began_at = new.began_at, worked = new.worked
    FROM unnest(
        %(seq)s::bigint[], %(state)s::text[], %(queue)s::text[], %(lane)s::int[], %(level)s::int[], %(count)s::bigint[],
        %(ahead)s::text[], %(last_outcome)s::text[], %(began_at)s::bigint[], %(worked)s::bigint[]
    ) AS new (seq, state, queue, lane, level, count, ahead, last_outcome, began_at, worked)
    WHERE document.seq = new.seq
    RETURNING customer, document.lane, document.seq, ready_at, cost, lease_check_at, document.state
), running_removed AS (
    DELETE FROM running WHERE ctid = ANY (ARRAY(
        SELECT entry.at FROM moved CROSS JOIN LATERAL (
            SELECT ctid AS at FROM running
            WHERE running.lease_check_at = moved.lease_check_at AND running.seq = moved.seq LIMIT 1
        ) AS entry
    ))
)
INSERT INTO requeued (customer, lane, seq, ready_at, cost)
SELECT customer, lane, seq, ready_at, cost FROM moved WHERE state = 'waiting';

-- name: split_without_unended_parts
SELECT
    id, seq, customer, state, level, lane, attempt, max_attempts, fence, last_outcome, cost, start_by, started_at, worker,
    charged, lease_until, step, queue, ready_at, parent, count
FROM document
WHERE id = ANY (ARRAY(
        SELECT parent FROM document WHERE seq = ANY (%(seq)s::bigint[]) AND parent IS NOT NULL
        UNION
        SELECT id FROM document WHERE seq = ANY (%(seq)s::bigint[])
    )) AND state = 'split'
    AND NOT EXISTS (SELECT 1 FROM document AS part WHERE part.unended_parent = document.id);

-- name: unended_parts
SELECT id FROM (SELECT id, seq FROM document WHERE unended_parent = ANY (%(id)s::uuid[]) OFFSET 0) AS part ORDER BY seq;

-- name: parts_below
WITH RECURSIVE below (id) AS (
    SELECT * FROM unnest(%(id)s::uuid[])
    UNION ALL
    SELECT document.id FROM document JOIN below ON document.parent = below.id
)
SELECT id FROM (
    SELECT id, seq FROM document WHERE id = ANY (ARRAY(SELECT id FROM below)) AND id <> ALL (%(id)s::uuid[]) OFFSET 0
) AS part
ORDER BY seq;

-- name: forget_steps
WITH files_removed AS (
    DELETE FROM file WHERE document = %(seq)s
), results_removed AS (
    UPDATE attempt SET result = NULL FROM document
    WHERE document.seq = %(seq)s AND attempt.customer = document.customer AND attempt.document = document.id
        AND attempt.result IS NOT NULL
)
UPDATE document SET step = 0, ahead = %(ahead)s WHERE seq = %(seq)s;

-- name: finish_documents
WITH finished AS (
    UPDATE document SET
        state = 'done', finished_at = %(now)s, lease_until = NULL, worker = NULL, error = NULL, last_outcome = 'done',
        result = outcome.result, unended_parent = NULL,
        began_at = least(started_at + coalesce(outcome.began_after, 0), greatest(started_at, %(now)s)),
        worked = greatest(0, least(outcome.worked, %(now)s - started_at - coalesce(outcome.began_after, 0)))
    FROM unnest(
        %(id)s::uuid[], %(fence)s::bigint[], %(result)s::text[], %(began_after)s::bigint[], %(worked)s::bigint[]
    ) AS outcome (id, fence, result, began_after, worked)
    WHERE document.id = outcome.id AND document.fence = outcome.fence AND state = 'running'
    RETURNING document.id, customer, seq, lease_check_at, lane, cost, charged, document.worked, step, parent, queue
), running_removed AS (
    DELETE FROM running WHERE ctid = ANY (ARRAY(
        SELECT entry.at FROM finished CROSS JOIN LATERAL (
            SELECT ctid AS at FROM running
            WHERE running.lease_check_at = finished.lease_check_at AND running.seq = finished.seq LIMIT 1
        ) AS entry
    ))
), ended_added AS (
    INSERT INTO ended (finished_at, seq) SELECT %(now)s, seq FROM finished
)
SELECT
    id, customer, seq, EXISTS (SELECT 1 FROM customer WHERE customer.id = finished.customer AND capped), lane, cost, charged,
    worked, step, parent IS NOT NULL, queue
FROM finished;

-- name: finish_documents_and_log
WITH finished AS (
    UPDATE document SET
        state = 'done', finished_at = instant.now, lease_until = NULL, worker = NULL, error = NULL, last_outcome = 'done',
        result = outcome.result, unended_parent = NULL,
        began_at = least(started_at + coalesce(outcome.began_after, 0), greatest(started_at, instant.now)),
        worked = greatest(0, least(outcome.worked, instant.now - started_at - coalesce(outcome.began_after, 0)))
    FROM ROWS FROM (unnest(
        %(id)s::uuid[], %(fence)s::bigint[], %(result)s::text[], %(began_after)s::bigint[], %(worked)s::bigint[]
    )) WITH ORDINALITY AS outcome (id, fence, result, began_after, worked, position), (
        SELECT coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now OFFSET 0
    ) AS instant
    WHERE document.id = outcome.id AND document.fence = outcome.fence AND state = 'running'
    RETURNING
        document.id, customer, seq, lease_check_at, finished_at, position, lane, cost, charged, document.worked, parent,
        queue
), finished_of AS (
    SELECT finished.*, customer.name, customer.capped FROM finished JOIN customer ON customer.id = finished.customer
), running_removed AS (
    DELETE FROM running WHERE ctid = ANY (ARRAY(
        SELECT entry.at FROM finished CROSS JOIN LATERAL (
            SELECT ctid AS at FROM running
            WHERE running.lease_check_at = finished.lease_check_at AND running.seq = finished.seq LIMIT 1
        ) AS entry
    ))
), ended_added AS (
    INSERT INTO ended (finished_at, seq) SELECT finished_at, seq FROM finished
), lane_log_added AS (
    INSERT INTO lane_log (customer, kind, level, n, cost, charged, worked)
    SELECT
        customer, CASE WHEN charged IS NULL THEN 'stopped' ELSE 'ended' END, CASE WHEN charged IS NOT NULL THEN lane END,
        CASE WHEN charged IS NOT NULL THEN 0 END, CASE WHEN charged IS NOT NULL THEN cost END, charged,
        CASE WHEN charged IS NOT NULL THEN worked END
    FROM finished_of WHERE capped OR charged IS NOT NULL ORDER BY position
), ended_parts_added AS (
    INSERT INTO lane_log (customer, kind, seq) SELECT customer, 'part_ended', seq FROM finished WHERE parent IS NOT NULL
), events_added AS (
    INSERT INTO event_outbox (at, kind, customers, documents, queues)
    SELECT
        min(finished_at), 'finished', array_agg(name ORDER BY position), array_agg(id ORDER BY position),
        CASE WHEN bool_or(queue <> 'default') THEN array_agg(queue ORDER BY position) END
    FROM finished_of HAVING count(*) > 0
)
SELECT
    id, capped OR parent IS NOT NULL OR queue = ANY (ARRAY(SELECT name FROM named_queue WHERE cap IS NOT NULL))
FROM finished_of;

-- name: end_steps_and_log
WITH outcome AS MATERIALIZED (
    SELECT outcome.*, named_queue.number AS next
    FROM ROWS FROM (unnest(
        %(id)s::uuid[], %(fence)s::bigint[], %(result)s::text[], %(began_after)s::bigint[], %(worked)s::bigint[],
        %(queue)s::text[], %(ahead)s::text[]
    )) WITH ORDINALITY AS outcome (id, fence, result, began_after, worked, queue, ahead, position)
        LEFT JOIN named_queue ON named_queue.name = outcome.queue
), instant AS MATERIALIZED (
    SELECT coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), locked AS MATERIALIZED (
    SELECT
        document.id, seq, customer, lane, document.fence, attempt, started_at, worker, cost, charged, lease_check_at, parent,
        document.queue, step, ready_at, instant.now, position, next, outcome.queue AS next_queue,
        outcome.ahead AS next_ahead, outcome.result AS new_result,
        least(started_at + coalesce(outcome.began_after, 0), greatest(started_at, instant.now)) AS new_began_at,
        greatest(0, least(outcome.worked, instant.now - started_at - coalesce(outcome.began_after, 0))) AS new_worked
    FROM outcome CROSS JOIN instant JOIN document ON document.id = outcome.id AND document.fence = outcome.fence
    WHERE state = 'running' AND (SELECT policy FROM queue_state) = %(policy)s
        AND NOT EXISTS (SELECT 1 FROM outcome AS other WHERE other.queue IS NOT NULL AND other.next IS NULL)
    FOR NO KEY UPDATE OF document
), ending AS MATERIALIZED (
    SELECT
        locked.*, customer.name AS customer_name, customer.capped,
        lane - mod(lane, 1000) + 10 * next + mod(lane, 10) AS next_lane
    FROM locked JOIN customer ON customer.id = locked.customer
), finished AS (
    UPDATE document SET
        state = 'done', finished_at = ending.now, lease_until = NULL, worker = NULL, error = NULL, last_outcome = 'done',
        result = new_result, unended_parent = NULL, began_at = new_began_at, worked = new_worked
    FROM ending WHERE document.seq = ending.seq AND next IS NULL
), moved AS (
    UPDATE document SET
        state = 'waiting', first_queue = coalesce(document.first_queue, document.queue), queue = next_queue, lane = next_lane,
        step = document.step + 1, ahead = next_ahead, ready_at = ending.now, attempt = 0, start_by = NULL, due_at = NULL,
        lease_until = NULL, worker = NULL, error = NULL, last_outcome = 'next', began_at = new_began_at, worked = new_worked
    FROM ending WHERE document.seq = ending.seq AND next IS NOT NULL
), running_removed AS (
    DELETE FROM running WHERE ctid = ANY (ARRAY(
        SELECT entry.at FROM ending CROSS JOIN LATERAL (
            SELECT ctid AS at FROM running
            WHERE running.lease_check_at = ending.lease_check_at AND running.seq = ending.seq LIMIT 1
        ) AS entry
    ))
), ended_added AS (
    INSERT INTO ended (finished_at, seq) SELECT now, seq FROM ending WHERE next IS NULL
), requeued_added AS (
    INSERT INTO requeued (customer, lane, seq, ready_at, cost)
    SELECT customer, next_lane, seq, now, cost FROM ending WHERE next IS NOT NULL
), attempts_added AS (
    INSERT INTO attempt (
        customer, document, fence, number, started_at, ended_at, ended, worker, began_at, worked, queue, step, ready_at, result
    )
    SELECT
        customer, id, fence, attempt, started_at, now, 'step_done', worker, new_began_at, new_worked, queue, step, ready_at,
        new_result
    FROM ending WHERE next IS NOT NULL
), lane_log_added AS (
    INSERT INTO lane_log (customer, kind, level, n, seq, ready_at, cost, charged, worked)
    SELECT change.* FROM (SELECT * FROM ending ORDER BY position) AS ending CROSS JOIN LATERAL (
        SELECT customer, 'ended', lane, 0, NULL::bigint, NULL::bigint, cost, charged, new_worked WHERE charged IS NOT NULL
        UNION ALL
        SELECT customer, 'stopped', NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE charged IS NULL AND capped
        UNION ALL
        SELECT customer, 'requeued', next_lane, 1, seq, now, cost, NULL, NULL WHERE next IS NOT NULL
        UNION ALL
        SELECT customer, 'part_ended', NULL, NULL, seq, NULL, NULL, NULL, NULL WHERE next IS NULL AND parent IS NOT NULL
    ) AS change
), events_added AS (
    INSERT INTO event_outbox (at, kind, customers, documents, queues, detail)
    SELECT
        min(now), CASE WHEN next_queue IS NULL THEN 'finished' ELSE 'step_done' END,
        array_agg(customer_name ORDER BY position), array_agg(id ORDER BY position),
        CASE WHEN bool_or(queue <> 'default') THEN array_agg(queue ORDER BY position) END,
        '{"next": ' || to_json(next_queue) || '}'
    FROM ending GROUP BY next_queue ORDER BY next_queue IS NOT NULL, min(position)
)
SELECT
    id, capped OR parent IS NOT NULL OR next IS NOT NULL
        OR queue = ANY (ARRAY(SELECT name FROM named_queue WHERE cap IS NOT NULL))
FROM ending;

-- name: add_files
INSERT INTO file (document, step, name, blob, size, sha256, media_type)
SELECT * FROM unnest(
    %(document)s::bigint[], %(step)s::int[], %(name)s::text[], %(blob)s::text[], %(size)s::bigint[], %(sha256)s::text[],
    %(media_type)s::text[]
);

-- name: heartbeat
WITH locked AS (
    SELECT document.seq, document.lease_check_at AS old_check_at
    FROM (
        SELECT * FROM (
            SELECT id, lease.fence, seq FROM document JOIN unnest(%(id)s::uuid[], %(fence)s::bigint[]) AS lease (id, fence)
            USING (id) OFFSET 0
        ) AS known ORDER BY seq
    ) AS lease JOIN document ON document.id = lease.id AND document.fence = lease.fence
    WHERE state = 'running' FOR NO KEY UPDATE OF document
), renewed AS (
    UPDATE document SET
        lease_until = %(until)s, lease_check_at = least(lease_check_at, %(until)s), leased_at = %(now)s, doubted_at = NULL
    FROM locked
    WHERE document.seq = locked.seq
    RETURNING id, fence, customer, document.seq, locked.old_check_at, lease_check_at
), lease_checks_moved AS (
    UPDATE running SET lease_check_at = renewed.lease_check_at FROM renewed
    WHERE running.lease_check_at = renewed.old_check_at AND running.seq = renewed.seq
        AND renewed.old_check_at > renewed.lease_check_at
)
SELECT id, fence, customer, old_check_at > lease_check_at FROM renewed;

-- name: requeue_document
WITH changed AS (
    UPDATE document SET
        state = 'waiting', ready_at = %(now)s, due_at = NULL, lease_until = NULL, worker = NULL, last_outcome = %(last_outcome)s
    WHERE seq = %(seq)s
    RETURNING customer, lane, seq, ready_at, cost, lease_check_at
), running_removed AS (
    DELETE FROM running USING changed WHERE running.lease_check_at = changed.lease_check_at AND running.seq = changed.seq
)
INSERT INTO requeued (customer, lane, seq, ready_at, cost) SELECT customer, lane, seq, ready_at, cost FROM changed;

-- name: release_document
WITH released AS (
    UPDATE document SET
        state = 'waiting', due_at = NULL, lease_until = NULL, worker = NULL, attempt = attempt - 1,
        last_outcome = 'handed_back'
    WHERE seq = %(seq)s
    RETURNING customer, lane, seq, ready_at, cost, lease_check_at
), running_removed AS (
    DELETE FROM running USING released WHERE running.lease_check_at = released.lease_check_at AND running.seq = released.seq
)
INSERT INTO requeued (customer, lane, seq, ready_at, cost) SELECT customer, lane, seq, ready_at, cost FROM released
RETURNING ready_at;

-- name: delay_document
WITH changed AS (
    UPDATE document SET
        state = 'delayed', due_at = %(due_at)s, lease_until = NULL, worker = NULL, error = %(error)s,
        last_outcome = 'failed', delayed_at = %(now)s, doubted_at = NULL
    WHERE seq = %(seq)s
    RETURNING seq, lease_check_at
)
DELETE FROM running USING changed WHERE running.lease_check_at = changed.lease_check_at AND running.seq = changed.seq;

-- name: end_document
WITH changed AS (
    UPDATE document SET
        state = %(state)s, finished_at = %(now)s, due_at = NULL, lease_until = NULL, worker = NULL,
        error = %(error)s, last_outcome = %(last_outcome)s, unended_parent = NULL
    WHERE seq = %(seq)s
    RETURNING customer, lane, seq, lease_check_at
), requeued_removed AS (
    DELETE FROM requeued USING changed
    WHERE requeued.customer = changed.customer AND requeued.lane = changed.lane AND requeued.seq = changed.seq
), running_removed AS (
    DELETE FROM running USING changed WHERE running.lease_check_at = changed.lease_check_at AND running.seq = changed.seq
)
INSERT INTO ended (finished_at, seq, failed) SELECT %(now)s, seq, %(state)s = 'failed' FROM changed;

-- name: cancel_document
WITH changed AS (
    UPDATE document SET
        state = 'cancelled', finished_at = %(now)s, due_at = NULL, lease_until = NULL, worker = NULL,
        unended_parent = NULL
    WHERE seq = %(seq)s
    RETURNING customer, lane, seq, lease_check_at
), requeued_removed AS (
    DELETE FROM requeued USING changed
    WHERE requeued.customer = changed.customer AND requeued.lane = changed.lane AND requeued.seq = changed.seq
), running_removed AS (
    DELETE FROM running USING changed WHERE running.lease_check_at = changed.lease_check_at AND running.seq = changed.seq
)
INSERT INTO ended (finished_at, seq) SELECT %(now)s, seq FROM changed;

-- name: retry_document
WITH old AS (
    SELECT seq, finished_at FROM document WHERE seq = %(seq)s
), ended_removed AS (
    DELETE FROM ended USING old WHERE ended.finished_at = old.finished_at AND ended.seq = old.seq
)
UPDATE document SET
    seq = nextval('document_seq'), level = %(level)s, lane = %(lane)s, queue = %(queue)s, count = %(count)s, state = %(state)s,
    ready_at = %(now)s, attempt = 0, start_by = NULL, due_at = NULL, started_at = NULL, finished_at = NULL,
    error = NULL, last_outcome = NULL, began_at = NULL, worked = NULL, unended_parent = parent
WHERE seq = %(seq)s
RETURNING seq;

-- name: expedite_document
WITH old AS (
    SELECT customer, lane, seq FROM document WHERE seq = %(seq)s
), requeued_removed AS (
    DELETE FROM requeued USING old
    WHERE requeued.customer = old.customer AND requeued.lane = old.lane AND requeued.seq = old.seq
), changed AS (
    UPDATE document SET
        lane = lane - mod(lane, 10) + CASE WHEN %(undo)s THEN level ELSE 0 END, due_at = NULL, state = 'waiting',
        ready_at = CASE state WHEN 'delayed' THEN %(now)s ELSE ready_at END
    WHERE seq = %(seq)s
    RETURNING customer, lane, seq, ready_at, cost
)
INSERT INTO requeued (customer, lane, seq, ready_at, cost) SELECT customer, lane, seq, ready_at, cost FROM changed
RETURNING ready_at, lane;
