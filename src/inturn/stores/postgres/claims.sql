-- A claim: it reads the queue's rows and the lane log, then lanes in turn and their next documents, and writes all it did
-- with `save_claim`. Claims run one by one under `claim_lock`; each is one snapshot.
--
-- `save_claim` is committed with the claim, so it checks by itself that every document was still waiting
-- (`require_claimed`). Its parts: `wanted` are the documents taken, `claimed` their rows, `requeued_removed` and
-- `running_added` follow their state, `events_added` are the events, `old_lanes_removed` and `lanes_added` replace rows of
-- lanes, `old_work_removed` and `work_added` those of customers' work, `old_state_removed` and `state_added` the row of
-- scheduler_state.
-- Where many rows are deleted at once, each is looked up in its index first (LIMIT keeps it so) and deleted by its ctid: a
-- join with a table that was empty when it was last analyzed would compare every row with every other. The row of a lane
-- is first looked for at the ctid where it was read, which takes no index. The row itself confirms that it is the one, since
-- VACUUM FULL moves rows. `first_lanes` counts requests for longer than `waiting_claims` serves them, as it must read enough
-- lanes for all of those. Where equal customers and lanes would do, rows are compared: no other index sorts them so. Such a
-- scan ends with the customer and not with the lane (in PostgreSQL 15 only the first column of a row ends it), so
-- next documents are limited first and checked for their lane afterwards: those of the lane come first.

-- name: queue
WITH newest AS MATERIALIZED (SELECT * FROM scheduler_state ORDER BY version DESC LIMIT 1)
SELECT
    queue_state.policy, newest.ordered, newest.scheduler_json, newest.deadlines, newest.version, newest.fence, newest.reserved,
    queue_state.paused_by, EXISTS (SELECT 1 FROM crash_sentinel), EXISTS (SELECT 1 FROM limits),
    (SELECT json_agg(json_build_array(seen_at, slots, CASE WHEN paused_by IS NOT NULL THEN name END, queues))::text FROM worker),
    (SELECT json_agg(
        json_build_array(number, name, turn_weight, paused_by IS NOT NULL, cap, rate_documents, rate_per, coalesce(tat, 0))
    )::text FROM named_queue LEFT JOIN queue_rate ON queue = number),
    pg_snapshot_xmax(newest.folded) > pg_snapshot_xmax(pg_current_snapshot()),
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM queue_state, newest;

-- name: take_lane_log
WITH newest AS MATERIALIZED (
    SELECT folded FROM scheduler_state ORDER BY version DESC LIMIT 1
), pending AS MATERIALIZED (
    SELECT ctid AS at FROM lane_log WHERE xid >= pg_snapshot_xmax((SELECT folded FROM newest))
    UNION ALL
    SELECT ctid FROM lane_log WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip((SELECT folded FROM newest))))
), taken AS (
    DELETE FROM lane_log USING pending WHERE lane_log.ctid = pending.at
    RETURNING number, lane_log.customer, kind, level AS lane, n, seq, ready_at, cost, settings, charged, worked
)
SELECT
    taken.*, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from, out_of_turn_at, group_turn,
    unit_time, in_flight, work_version, version, place
FROM taken LEFT JOIN LATERAL (
    SELECT unit_time, in_flight, version AS work_version FROM queue_work
    WHERE (queue_work.customer, queue_work.queue, queue_work.version) >= (taken.customer, (taken.lane - 1000 * (taken.lane / 1000)) / 10, 0)
        AND (queue_work.customer, queue_work.queue, queue_work.version)
            <= (taken.customer, (taken.lane - 1000 * (taken.lane / 1000)) / 10, 9223372036854775807)
    ORDER BY queue_work.customer DESC, queue_work.queue DESC, queue_work.version DESC LIMIT 1
) AS work ON true
LEFT JOIN LATERAL (
    SELECT
        weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from, out_of_turn_at, group_turn,
        version, ctid::text AS place
    FROM lane
    WHERE (lane.customer, lane.level, version) >= (taken.customer, taken.lane - 1000 * (taken.lane / 1000), 0)
        AND (lane.customer, lane.level, version)
            <= (taken.customer, taken.lane - 1000 * (taken.lane / 1000), 9223372036854775807)
    ORDER BY lane.customer DESC, lane.level DESC, version DESC LIMIT 1
) AS newest_lane ON true;

-- name: lane_log
WITH newest AS MATERIALIZED (
    SELECT folded FROM scheduler_state ORDER BY version DESC LIMIT 1
)
SELECT number, customer, kind, level, n, seq, ready_at, cost, settings, charged, worked FROM lane_log
WHERE xid >= pg_snapshot_xmax((SELECT folded FROM newest))
    OR xid = ANY (ARRAY(SELECT pg_snapshot_xip((SELECT folded FROM newest))))
    OR pg_snapshot_xmax((SELECT folded FROM newest)) > pg_snapshot_xmax(pg_current_snapshot());

-- name: take_whole_lane_log
DELETE FROM lane_log RETURNING number, customer, kind, level, n, seq, ready_at, cost, settings, charged, worked;

-- name: anything_to_claim
WITH newest AS MATERIALIZED (SELECT * FROM scheduler_state ORDER BY version DESC LIMIT 1)
SELECT
    queue_state.paused_by IS NULL,
    (
        SELECT array_agg(CASE number WHEN 0 THEN newest.scheduler_json ELSE queue_scheduler.state END)
        FROM named_queue LEFT JOIN queue_scheduler ON queue_scheduler.queue = number
        WHERE name = ANY (%(queues)s::text[]) AND named_queue.paused_by IS NULL
    ),
    EXISTS (SELECT 1 FROM lane_log WHERE xid >= pg_snapshot_xmax((SELECT folded FROM newest)))
    OR EXISTS (
        SELECT 1 FROM lane_log WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip((SELECT folded FROM newest))))
    )
    OR pg_snapshot_xmax(newest.folded) > pg_snapshot_xmax(pg_current_snapshot()),
    newest.deadlines, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM queue_state, newest;

-- name: lanes_of
SELECT
    wanted.customer, wanted.level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from,
    out_of_turn_at, group_turn, unit_time, in_flight, work_version, version, place
FROM unnest(%(customer)s::bigint[], %(level)s::int[]) AS wanted (customer, level)
LEFT JOIN LATERAL (
    SELECT unit_time, in_flight, version AS work_version FROM queue_work
    WHERE (queue_work.customer, queue_work.queue, queue_work.version) >= (wanted.customer, wanted.level / 10, 0)
        AND (queue_work.customer, queue_work.queue, queue_work.version)
            <= (wanted.customer, wanted.level / 10, 9223372036854775807)
    ORDER BY queue_work.customer DESC, queue_work.queue DESC, queue_work.version DESC LIMIT 1
) AS work ON true
LEFT JOIN LATERAL (
    SELECT
        weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from, out_of_turn_at, group_turn,
        version, ctid::text AS place
    FROM lane
    WHERE (lane.customer, lane.level, version) >= (wanted.customer, wanted.level, 0)
        AND (lane.customer, lane.level, version) <= (wanted.customer, wanted.level, 9223372036854775807)
    ORDER BY lane.customer DESC, lane.level DESC, version DESC LIMIT 1
) AS newest ON true;

-- name: lowest_lanes
SELECT
    customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from, out_of_turn_at,
    group_turn, unit_time, in_flight, work_version, version, lane.ctid::text
FROM lane LEFT JOIN LATERAL (
    SELECT unit_time, in_flight, version AS work_version FROM queue_work
    WHERE (queue_work.customer, queue_work.queue, queue_work.version) >= (lane.customer, lane.level / 10, 0)
        AND (queue_work.customer, queue_work.queue, queue_work.version)
            <= (lane.customer, lane.level / 10, 9223372036854775807)
    ORDER BY queue_work.customer DESC, queue_work.queue DESC, queue_work.version DESC LIMIT 1
) AS work ON true
WHERE scheduled AND level = %(level)s AND (sort_key, sort_tie) > (%(after)s, %(after_tie)s)
ORDER BY sort_key, sort_tie LIMIT %(limit)s;

-- name: oldest_heads
SELECT wanted.level, (
    SELECT head_ready_at FROM lane WHERE scheduled AND lane.level = wanted.level
    ORDER BY lane.level, head_ready_at, head_seq LIMIT 1
)
FROM unnest(%(level)s::int[]) AS wanted (level);

-- name: oldest_lanes
SELECT
    customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from, out_of_turn_at,
    group_turn, unit_time, in_flight, work_version, version, lane.ctid::text
FROM lane LEFT JOIN LATERAL (
    SELECT unit_time, in_flight, version AS work_version FROM queue_work
    WHERE (queue_work.customer, queue_work.queue, queue_work.version) >= (lane.customer, lane.level / 10, 0)
        AND (queue_work.customer, queue_work.queue, queue_work.version)
            <= (lane.customer, lane.level / 10, 9223372036854775807)
    ORDER BY queue_work.customer DESC, queue_work.queue DESC, queue_work.version DESC LIMIT 1
) AS work ON true
WHERE scheduled AND level = %(level)s AND (head_ready_at, head_seq) > (%(after)s, %(after_tie)s)
ORDER BY head_ready_at, head_seq LIMIT %(limit)s;

-- name: oldest_rested_lanes
SELECT
    customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from, out_of_turn_at,
    group_turn, unit_time, in_flight, work_version, version, lane.ctid::text
FROM lane LEFT JOIN LATERAL (
    SELECT unit_time, in_flight, version AS work_version FROM queue_work
    WHERE (queue_work.customer, queue_work.queue, queue_work.version) >= (lane.customer, lane.level / 10, 0)
        AND (queue_work.customer, queue_work.queue, queue_work.version)
            <= (lane.customer, lane.level / 10, 9223372036854775807)
    ORDER BY queue_work.customer DESC, queue_work.queue DESC, queue_work.version DESC LIMIT 1
) AS work ON true
WHERE scheduled AND level = %(level)s AND (head_ready_at, head_seq) > (%(after)s, %(after_tie)s)
    AND (out_of_turn_at <= %(rested_since)s OR out_of_turn_at > %(now)s)
ORDER BY head_ready_at, head_seq LIMIT %(limit)s;

-- name: waiting_claims
SELECT pid, worker, max_documents, lease, queues, now FROM claim_request
WHERE answer IS NULL AND pid <> pg_backend_pid() AND asked_at > clock_timestamp() - interval '20 seconds'
ORDER BY asked_at, pid;

-- name: forget_old_requests
DELETE FROM claim_request WHERE asked_at < clock_timestamp() - interval '1 minute';

-- name: first_lanes
WITH newest AS MATERIALIZED (
    SELECT
        ordered, number, CASE number WHEN 0 THEN scheduler_json ELSE queue_scheduler.state END::json -> 3 AS levels
    FROM scheduler_state CROSS JOIN named_queue LEFT JOIN queue_scheduler ON queue_scheduler.queue = number
    WHERE name = %(queue)s::text ORDER BY scheduler_state.version DESC LIMIT 1
), first_level AS MATERIALIZED (
    SELECT
        10 * number + position::int - 1 AS level, (value ->> 4)::bigint AS open_lanes,
        CASE ordered WHEN 'fair' THEN (value ->> 0)::bigint ELSE -1 END AS turn,
        %(limit)s::bigint + coalesce((
            SELECT sum(max_documents) FROM claim_request
            WHERE answer IS NULL AND asked_at > clock_timestamp() - interval '1 minute'
        ), 0) AS wanted
    FROM newest CROSS JOIN LATERAL json_array_elements(levels) WITH ORDINALITY AS item (value, position)
    WHERE (value ->> 4)::bigint > 0
    LIMIT 1
), lowest AS MATERIALIZED (
    SELECT lane.*, lane.ctid::text AS place, first_level.open_lanes, first_level.wanted
    FROM first_level CROSS JOIN LATERAL (
        SELECT *, ctid FROM lane
        WHERE scheduled AND lane.level = first_level.level AND (sort_key, sort_tie) > (first_level.turn, -1)
        ORDER BY lane.level, sort_key, sort_tie LIMIT first_level.wanted + %(more)s
    ) AS lane
)
SELECT
    customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from, out_of_turn_at,
    group_turn, unit_time, in_flight, work_version, version, place, next_document.seq, next_document.ready_at, next_document.cost,
    next_document.is_new
FROM lowest LEFT JOIN LATERAL (
    SELECT unit_time, in_flight, version AS work_version FROM queue_work
    WHERE (queue_work.customer, queue_work.queue, queue_work.version) >= (lowest.customer, lowest.level / 10, 0)
        AND (queue_work.customer, queue_work.queue, queue_work.version)
            <= (lowest.customer, lowest.level / 10, 9223372036854775807)
    ORDER BY queue_work.customer DESC, queue_work.queue DESC, queue_work.version DESC LIMIT 1
) AS work ON true
LEFT JOIN LATERAL (
    (
        SELECT seq, ready_at, cost, true AS is_new FROM (
            SELECT lane, seq, ready_at, cost FROM document
            WHERE lowest.scan_from IS NOT NULL
                AND (document.customer, lane, seq)
                    >= (lowest.customer, lowest.level, greatest(lowest.head_seq + 1, lowest.scan_from))
                AND (document.customer, lane, seq) < (lowest.customer + 1, 0, 0)
                AND state = 'waiting'
            ORDER BY document.customer, lane, seq LIMIT 1 + lowest.wanted / lowest.open_lanes
        ) AS new WHERE lane = lowest.level
    )
    UNION ALL
    (
        SELECT seq, ready_at, cost, false FROM (
            SELECT lane, seq, ready_at, cost FROM requeued
            WHERE (requeued.customer, lane, seq) > (lowest.customer, lowest.level, lowest.head_seq)
                AND (requeued.customer, lane, seq) < (lowest.customer + 1, 0, 0)
            ORDER BY requeued.customer, lane, seq LIMIT 1 + lowest.wanted / lowest.open_lanes
        ) AS back WHERE lane = lowest.level
    )
) AS next_document ON true;

-- name: served_documents
SELECT document_view.* FROM claim_request
    CROSS JOIN LATERAL unnest(answer) WITH ORDINALITY AS taken (seq, position)
    JOIN document_view ON document_view.seq = taken.seq
WHERE claim_request.pid = pg_backend_pid() AND claim_request.ticket = %(ticket)s
    AND document_view.state = 'running' AND document_view.fence = claim_request.first_fence + position - 1
ORDER BY position;

-- name: groups_of
SELECT customer, level, number, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scan_from
FROM unnest(%(customer)s::bigint[], %(level)s::int[], %(number)s::int[]) AS wanted (customer, level, number)
JOIN lane_group USING (customer, level, number);

-- name: lowest_groups
SELECT customer, level, number, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scan_from FROM lane_group
WHERE customer = %(customer)s AND level = %(level)s AND waiting > 0 AND (turn, stamp) > (%(after)s, %(after_tie)s)
ORDER BY turn, stamp LIMIT %(limit)s;

-- name: oldest_groups
SELECT customer, level, number, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scan_from FROM lane_group
WHERE customer = %(customer)s AND level = %(level)s AND waiting > 0 AND head_seq > %(after)s
ORDER BY head_seq LIMIT %(limit)s;

-- name: save_group
INSERT INTO lane_group (customer, level, number, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scan_from)
SELECT * FROM unnest(
    %(customer)s::bigint[], %(level)s::int[], %(number)s::int[], %(turn)s::bigint[], %(stamp)s::bigint[],
    %(waiting)s::bigint[], %(head_seq)s::bigint[], %(head_ready_at)s::bigint[], %(head_cost)s::double precision[],
    %(scan_from)s::bigint[]
)
ON CONFLICT (customer, level, number) DO UPDATE SET
    turn = excluded.turn, stamp = excluded.stamp, waiting = excluded.waiting, head_seq = excluded.head_seq,
    head_ready_at = excluded.head_ready_at, head_cost = excluded.head_cost, scan_from = excluded.scan_from;

-- name: forget_group
DELETE FROM lane_group USING unnest(%(customer)s::bigint[], %(level)s::int[], %(number)s::int[])
    AS spent (customer, level, number)
WHERE lane_group.customer = spent.customer AND lane_group.level = spent.level AND lane_group.number = spent.number;

-- name: forget_groups_of_lane
DELETE FROM lane_group USING unnest(%(customer)s::bigint[], %(level)s::int[]) AS emptied (customer, level)
WHERE lane_group.customer = emptied.customer AND lane_group.level = emptied.level;

-- name: limits_of
SELECT customer, settings, running, tat, rate_closed_until FROM limits WHERE customer = ANY (%(customer)s::bigint[]);

-- name: waiting_in_lanes
SELECT wanted.customer, wanted.level, waiting.seq, waiting.ready_at, waiting.cost, waiting.is_new
FROM unnest(%(customer)s::bigint[], %(level)s::int[], %(after)s::bigint[], %(scan_from)s::bigint[])
    AS wanted (customer, level, after, scan_from)
CROSS JOIN LATERAL (
    (
        SELECT seq, ready_at, cost, true AS is_new FROM (
            SELECT lane, seq, ready_at, cost FROM document
            WHERE wanted.scan_from < 9223372036854775807
                AND (document.customer, lane, seq)
                    >= (wanted.customer, wanted.level, greatest(wanted.after + 1, wanted.scan_from))
                AND (document.customer, lane, seq) < (wanted.customer + 1, 0, 0)
                AND state = 'waiting'
            ORDER BY document.customer, lane, seq LIMIT %(limit)s
        ) AS new WHERE lane = wanted.level
    )
    UNION ALL
    (
        SELECT seq, ready_at, cost, false FROM (
            SELECT lane, seq, ready_at, cost FROM requeued
            WHERE (requeued.customer, lane, seq) > (wanted.customer, wanted.level, wanted.after)
                AND (requeued.customer, lane, seq) < (wanted.customer + 1, 0, 0)
            ORDER BY requeued.customer, lane, seq LIMIT %(limit)s
        ) AS back WHERE lane = wanted.level
    )
) AS waiting;

-- name: save_claim
WITH wanted AS (
    SELECT * FROM unnest(%(claimed)s::claimed_row[])
), claimed AS (
    UPDATE document SET
        state = 'running', attempt = attempt + 1, started_at = wanted.now, lease_until = wanted.until,
        lease_check_at = wanted.until, fence = wanted.fence, worker = wanted.worker, last_outcome = NULL,
        leased_at = wanted.now, doubted_at = NULL, began_at = NULL, worked = NULL, charged = wanted.charged
    FROM wanted WHERE document.seq = wanted.seq AND state = 'waiting'
    RETURNING
        id, '', document.seq, level, count, state, submitted_at, ready_at, due_at, started_at, finished_at, attempt,
        document.fence, document.worker, lease_until, document.lane, error, name, uri, blob, sha256, size, media_type, batch,
        metadata, cost, delay, start_by, max_attempts, pages, began_at, worked, group_name, queue, steps, first_queue, step, ahead, parent, part
), requeued_removed AS (
    DELETE FROM requeued WHERE ctid = ANY (ARRAY(
        SELECT entry.at FROM wanted CROSS JOIN LATERAL (
            SELECT ctid AS at FROM requeued
            WHERE requeued.customer = wanted.customer AND requeued.lane = wanted.lane AND requeued.seq = wanted.seq LIMIT 1
        ) AS entry
    ))
), running_added AS (
    INSERT INTO running (lease_check_at, seq, customer) SELECT until, seq, customer FROM wanted
), events_added AS (
    INSERT INTO event_outbox (at, kind, customers, documents, operator, why, detail, queues)
    SELECT
        at, kind, customers,
        coalesce(documents, ARRAY(
            SELECT id FROM claimed
            WHERE fence BETWEEN first_fence AND first_fence + cardinality(customers) - 1 ORDER BY fence
        )),
        operator, why, detail, queues
    FROM unnest(%(events)s::event_row[])
), old_lanes_removed AS (
    DELETE FROM lane WHERE ctid = ANY (ARRAY(
        SELECT coalesce(
            (
                SELECT ctid FROM lane WHERE ctid = old.at
                AND ARRAY[lane.customer, lane.level, lane.version] = ARRAY[old.customer, old.level, old.version]
            ),
            (
                SELECT ctid FROM lane
                WHERE lane.customer = old.customer AND lane.level = old.level AND lane.version = old.version LIMIT 1
            )
        )
        FROM unnest(%(old_lanes)s::replaced_lane[]) AS old
    ))
), lanes_added AS (
    INSERT INTO lane (
        customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from,
        out_of_turn_at, group_turn, sort_key, sort_tie, version
    )
    SELECT new_lane.*, %(version)s + 1 FROM unnest(%(lanes)s::lane_row[]) AS new_lane
), old_work_removed AS (
    DELETE FROM queue_work WHERE ctid = ANY (ARRAY(
        SELECT entry.at
        FROM unnest(%(old_work)s::replaced_work[]) AS old
        CROSS JOIN LATERAL (
            SELECT ctid AS at FROM queue_work
            WHERE queue_work.customer = old.customer AND queue_work.queue = old.queue AND queue_work.version = old.version
            LIMIT 1
        ) AS entry
    ))
), work_added AS (
    INSERT INTO queue_work (customer, queue, version, unit_time, in_flight)
    SELECT customer, queue, %(version)s + 1, unit_time, in_flight FROM unnest(%(work)s::work_row[])
), claims_answered AS (
    UPDATE claim_request SET answer = given.answer, first_fence = given.first_fence
    FROM unnest(%(answers)s::claim_answer[]) AS given
    WHERE claim_request.pid = given.pid
), old_state_removed AS (
    DELETE FROM scheduler_state WHERE version = %(version)s RETURNING folded
), state_added AS (
    INSERT INTO scheduler_state (version, ordered, scheduler_json, deadlines, fence, reserved, folded)
    SELECT
        %(version)s + 1, %(ordered)s, %(scheduler_state)s, %(deadlines)s, %(last_fence)s, %(reserved)s,
        pg_current_snapshot()
    FROM old_state_removed
    WHERE require_claimed((SELECT count(*) FROM claimed), cardinality(%(claimed)s::claimed_row[]))
)
SELECT * FROM claimed WHERE fence >= %(first_own_fence)s;

-- name: save_queue_scheduler
INSERT INTO queue_scheduler (queue, state) SELECT * FROM unnest(%(queue)s::int[], %(state)s::text[])
ON CONFLICT (queue) DO UPDATE SET state = excluded.state;

-- name: save_tat
INSERT INTO queue_rate (queue, tat) SELECT * FROM unnest(%(queue)s::int[], %(tat)s::bigint[])
ON CONFLICT (queue) DO UPDATE SET tat = excluded.tat;

-- name: running_by_queue
SELECT queue, count(*) FROM running JOIN document ON document.seq = running.seq GROUP BY queue;

-- name: save_limits
INSERT INTO limits (customer, settings, running, tat, rate_closed_until)
SELECT * FROM unnest(
    %(customer)s::bigint[], %(settings)s::text[], %(running)s::bigint[], %(tat)s::bigint[], %(rate_closed_until)s::bigint[]
)
ON CONFLICT (customer) DO UPDATE SET
    settings = excluded.settings, running = excluded.running, tat = excluded.tat,
    rate_closed_until = excluded.rate_closed_until;

-- name: set_crash_sentinel
INSERT INTO crash_sentinel (one) VALUES (1) ON CONFLICT DO NOTHING;

-- name: forget_spent_lanes
DELETE FROM lane USING unnest(%(level)s::int[], %(turn)s::bigint[]) AS spent (level, turn)
WHERE waiting = 0 AND lane.level = spent.level AND lane.turn <= spent.turn AND out_of_turn_at <= %(rested_since)s
    AND NOT EXISTS (
        SELECT 1 FROM queue_work
        WHERE queue_work.customer = lane.customer AND queue_work.queue = lane.level / 10 AND in_flight > 0
    );
