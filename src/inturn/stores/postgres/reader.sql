-- Queries of `reader.py`, which change nothing: documents, lists and counts, customers, the open lanes, the documents ahead
-- of one, throughput, worker time, events. `lane_log` holds changes that the rows of lanes do not show yet: where the length of a lane
-- matters, both are added. Of one customer's documents each lane is read by its index and all are merged. Rows are compared
-- there, so that no other index serves.

-- name: document_by_id
SELECT * FROM document_view WHERE id = %(id)s::uuid;

-- name: files
SELECT name, blob, size, sha256, media_type FROM file
WHERE (document, step) = (SELECT seq, step FROM document WHERE id = %(id)s::uuid) ORDER BY name;

-- name: files_of_steps
SELECT step, name, blob, size, sha256, media_type FROM file
WHERE document = (SELECT seq FROM document WHERE id = %(id)s::uuid) ORDER BY step, name;

-- name: last_files
SELECT file.document, file.name, file.blob, file.size, file.sha256, file.media_type
FROM document JOIN file ON file.document = document.seq AND file.step = document.step
WHERE document.seq = ANY (%(seq)s::bigint[]);

-- name: parts
SELECT seq, id, part, name, state, CASE state WHEN 'done' THEN result END, CASE state WHEN 'failed' THEN error END
FROM document
WHERE parent = %(id)s::uuid AND part > %(after)s
    AND split_step = (SELECT max(split_step) FROM document WHERE parent = %(id)s::uuid)
ORDER BY part LIMIT %(limit)s;

-- name: known_blobs
SELECT blob FROM document WHERE blob = ANY (%(blob)s::text[])
UNION
SELECT blob FROM file WHERE blob = ANY (%(blob)s::text[]);

-- name: result
SELECT seq, result FROM document WHERE id = %(id)s::uuid;

-- name: newest_documents
SELECT * FROM document_view
WHERE seq < %(after)s AND seq >= %(first)s::bigint
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
  AND (NOT %(running)s::boolean OR seq = ANY (ARRAY(SELECT seq FROM running)))
  AND (%(level)s::int IS NULL OR level = %(level)s::int)
  AND (%(batch)s::text IS NULL OR batch = %(batch)s::text)
  AND (%(group_name)s::text IS NULL OR group_name = %(group_name)s::text)
  AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
  AND (%(parent)s::uuid IS NULL OR parent = %(parent)s::uuid)
  AND (%(parts)s::boolean IS NULL OR (parent IS NOT NULL) = %(parts)s::boolean)
  AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
  AND submitted_at >= %(submitted_since)s::bigint AND submitted_at < %(submitted_until)s::bigint
  AND (%(ended_since)s::bigint IS NULL OR (finished_at >= %(ended_since)s::bigint AND finished_at < %(ended_until)s::bigint))
ORDER BY seq DESC LIMIT %(limit)s;

-- name: newest_grouped_documents_of
SELECT * FROM document_view
WHERE owner = %(owner)s::bigint AND lane > 9 AND seq < %(after)s AND seq >= %(first)s::bigint
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
  AND (NOT %(running)s::boolean OR seq = ANY (ARRAY(SELECT seq FROM running)))
  AND (%(level)s::int IS NULL OR level = %(level)s::int)
  AND (%(batch)s::text IS NULL OR batch = %(batch)s::text)
  AND (%(group_name)s::text IS NULL OR group_name = %(group_name)s::text)
  AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
  AND (%(parent)s::uuid IS NULL OR parent = %(parent)s::uuid)
  AND (%(parts)s::boolean IS NULL OR (parent IS NOT NULL) = %(parts)s::boolean)
  AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
  AND submitted_at >= %(submitted_since)s::bigint AND submitted_at < %(submitted_until)s::bigint
  AND (%(ended_since)s::bigint IS NULL OR (finished_at >= %(ended_since)s::bigint AND finished_at < %(ended_until)s::bigint))
ORDER BY seq DESC LIMIT %(limit)s;

-- name: newest_documents_of
SELECT page.* FROM unnest(%(lane)s::int[]) AS wanted (lane)
CROSS JOIN LATERAL (
    SELECT * FROM document_view
    WHERE (owner, lane, seq) < (%(owner)s::bigint, wanted.lane, %(after)s)
      AND (owner, lane, seq) >= (%(owner)s::bigint, wanted.lane, %(first)s::bigint)
      AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
      AND (NOT %(running)s::boolean OR seq = ANY (ARRAY(SELECT seq FROM running)))
      AND (%(level)s::int IS NULL OR level = %(level)s::int)
      AND (%(batch)s::text IS NULL OR batch = %(batch)s::text)
      AND (%(group_name)s::text IS NULL OR group_name = %(group_name)s::text)
      AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
      AND (%(parent)s::uuid IS NULL OR parent = %(parent)s::uuid)
      AND (%(parts)s::boolean IS NULL OR (parent IS NOT NULL) = %(parts)s::boolean)
      AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
      AND submitted_at >= %(submitted_since)s::bigint AND submitted_at < %(submitted_until)s::bigint
      AND (%(ended_since)s::bigint IS NULL OR (finished_at >= %(ended_since)s::bigint AND finished_at < %(ended_until)s::bigint))
    ORDER BY owner DESC, lane DESC, seq DESC LIMIT %(limit)s
) AS page
ORDER BY seq DESC LIMIT %(limit)s;

-- name: oldest_documents
SELECT * FROM document_view
WHERE seq > %(after)s AND seq <= %(last)s::bigint
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
  AND (NOT %(running)s::boolean OR seq = ANY (ARRAY(SELECT seq FROM running)))
  AND (%(level)s::int IS NULL OR level = %(level)s::int)
  AND (%(batch)s::text IS NULL OR batch = %(batch)s::text)
  AND (%(group_name)s::text IS NULL OR group_name = %(group_name)s::text)
  AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
  AND (%(parent)s::uuid IS NULL OR parent = %(parent)s::uuid)
  AND (%(parts)s::boolean IS NULL OR (parent IS NOT NULL) = %(parts)s::boolean)
  AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
  AND submitted_at >= %(submitted_since)s::bigint AND submitted_at < %(submitted_until)s::bigint
  AND (%(ended_since)s::bigint IS NULL OR (finished_at >= %(ended_since)s::bigint AND finished_at < %(ended_until)s::bigint))
ORDER BY seq LIMIT %(limit)s;

-- name: oldest_grouped_documents_of
SELECT * FROM document_view
WHERE owner = %(owner)s::bigint AND lane > 9 AND seq > %(after)s AND seq <= %(last)s::bigint
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
  AND (NOT %(running)s::boolean OR seq = ANY (ARRAY(SELECT seq FROM running)))
  AND (%(level)s::int IS NULL OR level = %(level)s::int)
  AND (%(batch)s::text IS NULL OR batch = %(batch)s::text)
  AND (%(group_name)s::text IS NULL OR group_name = %(group_name)s::text)
  AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
  AND (%(parent)s::uuid IS NULL OR parent = %(parent)s::uuid)
  AND (%(parts)s::boolean IS NULL OR (parent IS NOT NULL) = %(parts)s::boolean)
  AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
  AND submitted_at >= %(submitted_since)s::bigint AND submitted_at < %(submitted_until)s::bigint
  AND (%(ended_since)s::bigint IS NULL OR (finished_at >= %(ended_since)s::bigint AND finished_at < %(ended_until)s::bigint))
ORDER BY seq LIMIT %(limit)s;

-- name: oldest_documents_of
SELECT page.* FROM unnest(%(lane)s::int[]) AS wanted (lane)
CROSS JOIN LATERAL (
    SELECT * FROM document_view
    WHERE (owner, lane, seq) > (%(owner)s::bigint, wanted.lane, %(after)s)
      AND (owner, lane, seq) <= (%(owner)s::bigint, wanted.lane, %(last)s::bigint)
      AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
      AND (NOT %(running)s::boolean OR seq = ANY (ARRAY(SELECT seq FROM running)))
      AND (%(level)s::int IS NULL OR level = %(level)s::int)
      AND (%(batch)s::text IS NULL OR batch = %(batch)s::text)
      AND (%(group_name)s::text IS NULL OR group_name = %(group_name)s::text)
      AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
      AND (%(parent)s::uuid IS NULL OR parent = %(parent)s::uuid)
      AND (%(parts)s::boolean IS NULL OR (parent IS NOT NULL) = %(parts)s::boolean)
      AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
      AND submitted_at >= %(submitted_since)s::bigint AND submitted_at < %(submitted_until)s::bigint
      AND (%(ended_since)s::bigint IS NULL OR (finished_at >= %(ended_since)s::bigint AND finished_at < %(ended_until)s::bigint))
    ORDER BY owner, lane, seq LIMIT %(limit)s
) AS page
ORDER BY seq LIMIT %(limit)s;

-- name: failures
SELECT document.id::text, customer.name, document.name, failed.finished_at, left(error, %(characters)s::int)
FROM (
    SELECT finished_at, seq FROM ended
    WHERE failed AND finished_at >= %(since)s::bigint AND finished_at < %(until)s::bigint
    ORDER BY finished_at DESC, seq DESC LIMIT %(limit)s::bigint
) AS failed JOIN document ON document.seq = failed.seq JOIN customer ON customer.id = document.customer
WHERE state = 'failed'
ORDER BY failed.finished_at DESC, failed.seq DESC;

-- name: ended_between
SELECT min(seq), max(seq) FROM ended WHERE finished_at >= %(since)s::bigint AND finished_at < %(until)s::bigint;

-- name: counts
SELECT state, CASE state WHEN 'waiting' THEN mod(lane, 10) END, count(*) FROM document
WHERE seq BETWEEN %(first)s::bigint AND %(last)s::bigint
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
  AND (NOT %(running)s::boolean OR seq = ANY (ARRAY(SELECT seq FROM running)))
  AND (%(owner)s::bigint IS NULL OR customer = %(owner)s::bigint)
  AND (%(level)s::int IS NULL OR level = %(level)s::int)
  AND (%(batch)s::text IS NULL OR batch = %(batch)s::text)
  AND (%(group_name)s::text IS NULL OR group_name = %(group_name)s::text)
  AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
  AND (%(parent)s::uuid IS NULL OR parent = %(parent)s::uuid)
  AND (%(parts)s::boolean IS NULL OR (parent IS NOT NULL) = %(parts)s::boolean)
  AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
  AND submitted_at >= %(submitted_since)s::bigint AND submitted_at < %(submitted_until)s::bigint
  AND (%(ended_since)s::bigint IS NULL OR (finished_at >= %(ended_since)s::bigint AND finished_at < %(ended_until)s::bigint))
GROUP BY 1, 2;

-- name: customers
WITH changed AS (
    SELECT customer, sum(n) AS n FROM lane_log WHERE level IS NOT NULL GROUP BY customer
)
SELECT id, name, count, updated_at, settings FROM customer LEFT JOIN changed ON changed.customer = customer.id
WHERE (%(name)s::text IS NULL OR name = %(name)s::text)
  AND (%(after)s::text IS NULL OR name > %(after)s::text)
  AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
  AND (%(paused)s::boolean IS NULL OR paused = %(paused)s::boolean)
  AND (%(waiting)s::boolean IS NULL OR %(waiting)s::boolean = (
      coalesce((SELECT sum(waiting) FROM lane WHERE lane.customer = customer.id), 0) + coalesce(changed.n, 0) > 0
  ))
ORDER BY name LIMIT %(limit)s;

-- name: waiting_by_lane
SELECT customer, level, sum(n)::bigint FROM (
    SELECT customer, level, waiting AS n FROM lane WHERE customer = ANY (%(customer)s::bigint[])
    UNION ALL
    SELECT customer, mod(level, 1000), n FROM lane_log WHERE level IS NOT NULL AND customer = ANY (%(customer)s::bigint[])
) AS lengths
GROUP BY customer, level HAVING sum(n) > 0 ORDER BY customer, level;

-- name: waiting_lanes
SELECT lane.customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, unit_time
FROM lane LEFT JOIN queue_work ON queue_work.customer = lane.customer AND queue_work.queue = lane.level / 10
WHERE waiting > 0 AND level BETWEEN %(first)s AND %(last)s;

-- name: ahead
WITH mine AS MATERIALIZED (
    SELECT seq, customer, lane FROM document WHERE id = %(id)s::uuid AND state = 'waiting'
), scan_start AS MATERIALIZED (
    SELECT coalesce(
        (SELECT scan_from FROM lane WHERE lane.customer = mine.customer AND lane.level = mine.lane),
        (SELECT scan_from FROM lane_group
         WHERE lane_group.customer = mine.customer AND lane_group.level = mod(mine.lane, 1000)
             AND number = mine.lane / 1000),
        (SELECT min(seq) FROM lane_log
         WHERE kind = 'joined' AND lane_log.customer = mine.customer AND lane_log.level = mine.lane),
        9223372036854775807
    ) AS seq
    FROM mine
)
SELECT
    (SELECT count(*) FROM document AS other
     WHERE other.customer = mine.customer AND other.lane = mine.lane AND other.state = 'waiting'
         AND other.seq >= scan_start.seq AND other.seq < mine.seq)
    + (SELECT count(*) FROM requeued
       WHERE requeued.customer = mine.customer AND requeued.lane = mine.lane
           AND requeued.seq < least(scan_start.seq, mine.seq))
FROM mine, scan_start;

-- name: lane_of
SELECT customer, lane, seq, (
    EXISTS (
        SELECT 1 FROM lane
        WHERE lane.customer = document.customer AND lane.level = mod(document.lane, 1000) AND group_turn IS NOT NULL
    )
    OR EXISTS (
        SELECT 1 FROM lane_log
        WHERE lane_log.customer = document.customer AND mod(lane_log.level, 1000) = mod(document.lane, 1000) AND lane_log.level > 999
    )
)
FROM document WHERE id = %(id)s::uuid AND state = 'waiting';

-- name: throughput
SELECT
    (SELECT count(*) FROM running JOIN document ON document.seq = running.seq WHERE started_at >= %(since)s)
    + (SELECT count(*) FROM ended JOIN document ON document.seq = ended.seq
       WHERE ended.finished_at >= %(since)s AND started_at >= %(since)s),
    (SELECT count(*) FROM ended JOIN document ON document.seq = ended.seq
     WHERE ended.finished_at >= %(since)s AND state IN ('done', 'failed')),
    (SELECT count(*) FROM running);

-- name: work_between
-- Documents are read one by one: without statistics, or with old ones, a join could be planned to read all of them.
WITH ended_attempt AS (
    SELECT
        customer, CASE state WHEN 'done' THEN 'finished' ELSE state END AS ended, ended.finished_at AS ended_at,
        began_at, worked
    FROM ended CROSS JOIN LATERAL (
        SELECT customer, state, started_at, began_at, worked FROM document WHERE document.seq = ended.seq OFFSET 0
    ) AS own
    WHERE ended.finished_at >= %(since)s AND state IN ('done', 'failed') AND began_at >= started_at
    UNION ALL
    SELECT customer, ended, ended_at, began_at, worked FROM attempt
    WHERE ended_at >= %(since)s AND began_at IS NOT NULL
), by_customer AS (
    SELECT
        customer, ended,
        count(*) FILTER (WHERE ended_at < %(until)s) AS attempts,
        coalesce(sum(worked) FILTER (WHERE ended_at < %(until)s), 0)::bigint AS worked,
        sum(greatest(0, least(began_at + worked, %(until)s) - greatest(began_at, %(since)s)))::bigint AS within
    FROM ended_attempt WHERE ended_at < %(until)s OR began_at < %(until)s
    GROUP BY customer, ended
)
SELECT customer.name, customer.settings, ended, attempts, worked, within
FROM by_customer JOIN customer ON customer.id = by_customer.customer ORDER BY customer.name, ended;

-- name: running_claims
SELECT document.id::text, customer.name, customer.settings, worker, fence, started_at
FROM running JOIN document ON document.seq = running.seq JOIN customer ON customer.id = document.customer
ORDER BY fence;
