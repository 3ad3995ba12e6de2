-- Queries of `reader.py`, which change nothing: lists and counts of documents and customers, the open lanes, the documents
-- ahead of one, throughput, worker time, events. `lane_log` holds changes that the rows of lanes do not show yet: where the length of a
-- lane matters, both are added.

-- name: result
SELECT seq, coalesce(result, old_result) FROM document WHERE id = unhex(:id, '-');

-- name: parts
SELECT
    seq, id, part, name, state, CASE state WHEN 'done' THEN coalesce(result, old_result) END,
    CASE state WHEN 'failed' THEN error END
FROM document INDEXED BY document_part
WHERE parent = unhex(:id, '-') AND part > :after
    AND split_step = (SELECT max(split_step) FROM document WHERE parent = unhex(:id, '-'))
ORDER BY part LIMIT :limit;

-- name: newest_documents
SELECT * FROM document_view
WHERE seq < :after AND seq >= :first
  AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:level IS NULL OR level = :level)
  AND (:batch IS NULL OR batch = :batch)
  AND (:group_name IS NULL OR group_name = :group_name)
  AND (:queue IS NULL OR queue = :queue)
  AND (:parent IS NULL OR parent = unhex(:parent, '-')) AND (:parts IS NULL OR :parts = (parent IS NOT NULL))
  AND (:text IS NULL OR instr(lower_case(name), :text) > 0)
  AND submitted_at >= :submitted_since AND submitted_at < :submitted_until
  AND (:ended_since IS NULL OR (finished_at >= :ended_since AND finished_at < :ended_until))
ORDER BY seq DESC LIMIT :limit;

-- name: newest_grouped_documents_of
SELECT * FROM document_view
WHERE owner = :owner AND lane > 9 AND seq < :after AND seq >= :first
  AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:level IS NULL OR level = :level)
  AND (:batch IS NULL OR batch = :batch)
  AND (:group_name IS NULL OR group_name = :group_name)
  AND (:queue IS NULL OR queue = :queue)
  AND (:parent IS NULL OR parent = unhex(:parent, '-')) AND (:parts IS NULL OR :parts = (parent IS NOT NULL))
  AND (:text IS NULL OR instr(lower_case(name), :text) > 0)
  AND submitted_at >= :submitted_since AND submitted_at < :submitted_until
  AND (:ended_since IS NULL OR (finished_at >= :ended_since AND finished_at < :ended_until))
ORDER BY seq DESC LIMIT :limit;

-- name: newest_documents_of
SELECT * FROM document_view
WHERE owner = :owner AND lane = :lane
  AND seq < :after AND seq >= :first
  AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:level IS NULL OR level = :level)
  AND (:batch IS NULL OR batch = :batch)
  AND (:group_name IS NULL OR group_name = :group_name)
  AND (:queue IS NULL OR queue = :queue)
  AND (:parent IS NULL OR parent = unhex(:parent, '-')) AND (:parts IS NULL OR :parts = (parent IS NOT NULL))
  AND (:text IS NULL OR instr(lower_case(name), :text) > 0)
  AND submitted_at >= :submitted_since AND submitted_at < :submitted_until
  AND (:ended_since IS NULL OR (finished_at >= :ended_since AND finished_at < :ended_until))
ORDER BY seq DESC LIMIT :limit;

-- name: oldest_documents
SELECT * FROM document_view
WHERE seq > :after AND seq <= :last
  AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:level IS NULL OR level = :level)
  AND (:batch IS NULL OR batch = :batch)
  AND (:group_name IS NULL OR group_name = :group_name)
  AND (:queue IS NULL OR queue = :queue)
  AND (:parent IS NULL OR parent = unhex(:parent, '-')) AND (:parts IS NULL OR :parts = (parent IS NOT NULL))
  AND (:text IS NULL OR instr(lower_case(name), :text) > 0)
  AND submitted_at >= :submitted_since AND submitted_at < :submitted_until
  AND (:ended_since IS NULL OR (finished_at >= :ended_since AND finished_at < :ended_until))
ORDER BY seq ASC LIMIT :limit;

-- name: oldest_grouped_documents_of
SELECT * FROM document_view
WHERE owner = :owner AND lane > 9 AND seq > :after AND seq <= :last
  AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:level IS NULL OR level = :level)
  AND (:batch IS NULL OR batch = :batch)
  AND (:group_name IS NULL OR group_name = :group_name)
  AND (:queue IS NULL OR queue = :queue)
  AND (:parent IS NULL OR parent = unhex(:parent, '-')) AND (:parts IS NULL OR :parts = (parent IS NOT NULL))
  AND (:text IS NULL OR instr(lower_case(name), :text) > 0)
  AND submitted_at >= :submitted_since AND submitted_at < :submitted_until
  AND (:ended_since IS NULL OR (finished_at >= :ended_since AND finished_at < :ended_until))
ORDER BY seq ASC LIMIT :limit;

-- name: oldest_documents_of
SELECT * FROM document_view
WHERE owner = :owner AND lane = :lane
  AND seq > :after AND seq <= :last
  AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:level IS NULL OR level = :level)
  AND (:batch IS NULL OR batch = :batch)
  AND (:group_name IS NULL OR group_name = :group_name)
  AND (:queue IS NULL OR queue = :queue)
  AND (:parent IS NULL OR parent = unhex(:parent, '-')) AND (:parts IS NULL OR :parts = (parent IS NOT NULL))
  AND (:text IS NULL OR instr(lower_case(name), :text) > 0)
  AND submitted_at >= :submitted_since AND submitted_at < :submitted_until
  AND (:ended_since IS NULL OR (finished_at >= :ended_since AND finished_at < :ended_until))
ORDER BY seq ASC LIMIT :limit;

-- name: failures
SELECT document.id, customer.name, document.name, coalesce(due_at, finished_at), substr(error, 1, :characters)
FROM document INDEXED BY document_clock JOIN customer ON customer.id = document.customer
WHERE state = 'failed' AND state <> 'waiting'
  AND coalesce(due_at, finished_at) >= :since AND coalesce(due_at, finished_at) < :until
ORDER BY coalesce(due_at, finished_at) DESC, document.seq DESC LIMIT :limit;

-- name: ended_between
SELECT min(seq), max(seq) FROM document INDEXED BY document_clock
WHERE state IN ('done', 'failed', 'cancelled', 'expired') AND state <> 'waiting'
  AND coalesce(due_at, finished_at) >= :since AND coalesce(due_at, finished_at) < :until;

-- name: counts
SELECT state, CASE state WHEN 'waiting' THEN lane % 10 END, count(*) FROM document
WHERE seq BETWEEN :first AND :last
  AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:owner IS NULL OR customer = :owner)
  AND (:level IS NULL OR level = :level)
  AND (:batch IS NULL OR batch = :batch)
  AND (:group_name IS NULL OR group_name = :group_name)
  AND (:queue IS NULL OR queue = :queue)
  AND (:parent IS NULL OR parent = unhex(:parent, '-')) AND (:parts IS NULL OR :parts = (parent IS NOT NULL))
  AND (:text IS NULL OR instr(lower_case(name), :text) > 0)
  AND submitted_at >= :submitted_since AND submitted_at < :submitted_until
  AND (:ended_since IS NULL OR (finished_at >= :ended_since AND finished_at < :ended_until))
GROUP BY 1, 2;

-- name: customers
WITH changed AS MATERIALIZED (
    SELECT customer, sum(n) AS n FROM lane_log WHERE level IS NOT NULL GROUP BY customer
)
SELECT id, name, count, updated_at, settings FROM customer
WHERE name >= coalesce(:name, :after, '') AND name <= coalesce(:name, char(1114111)) AND (:after IS NULL OR name <> :after)
  AND (:text IS NULL OR instr(lower_case(name), :text) > 0)
  AND (:paused IS NULL OR paused = :paused)
  AND (:waiting IS NULL OR :waiting = (0 <
      coalesce((SELECT sum(waiting) FROM lane WHERE lane.customer = customer.id), 0)
      + coalesce((SELECT n FROM changed WHERE changed.customer = customer.id), 0)
  ))
ORDER BY name LIMIT :limit;

-- name: waiting_by_lane
SELECT customer, level, sum(n) FROM (
    SELECT customer, level, waiting AS n FROM lane WHERE customer IN (SELECT value ->> 0 FROM json_each(:rows))
    UNION ALL
    SELECT customer, level % 1000, n FROM lane_log WHERE level IS NOT NULL AND customer IN (SELECT value ->> 0 FROM json_each(:rows))
)
GROUP BY 1, 2 HAVING sum(n) > 0 ORDER BY 1, 2;

-- name: waiting_lanes
SELECT lane.customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, unit_time
FROM lane LEFT JOIN queue_work ON queue_work.customer = lane.customer AND queue = level / 10
WHERE waiting > 0 AND level BETWEEN :first AND :last;

-- name: ahead
WITH mine AS MATERIALIZED (
    SELECT seq, customer, lane FROM document WHERE id = unhex(:id, '-') AND state = 'waiting'
), scan_start AS MATERIALIZED (
    SELECT coalesce(
        (SELECT scan_from FROM lane WHERE lane.customer = mine.customer AND lane.level = mine.lane),
        (SELECT scan_from FROM lane_group
         WHERE lane_group.customer = mine.customer AND lane_group.level = mine.lane % 1000 AND number = mine.lane / 1000),
        (SELECT min(seq) FROM lane_log
         WHERE kind = 'joined' AND lane_log.customer = mine.customer AND lane_log.level = mine.lane),
        9223372036854775807
    ) AS seq
    FROM mine
)
SELECT
    (SELECT count(*) FROM document INDEXED BY document_lane
     WHERE customer = mine.customer AND lane = mine.lane AND seq >= scan_start.seq AND seq < mine.seq AND state = 'waiting')
    + (SELECT count(*) FROM requeued
       WHERE customer = mine.customer AND lane = mine.lane AND seq < min(scan_start.seq, mine.seq))
FROM mine, scan_start;

-- name: lane_of
SELECT customer, lane, seq, (
    EXISTS (
        SELECT 1 FROM lane
        WHERE lane.customer = document.customer AND lane.level = document.lane % 1000 AND group_turn IS NOT NULL
    )
    OR EXISTS (
        SELECT 1 FROM lane_log
        WHERE lane_log.customer = document.customer AND lane_log.level % 1000 = document.lane % 1000 AND lane_log.level > 999
    )
)
FROM document WHERE id = unhex(:id, '-') AND state = 'waiting';

-- name: throughput
SELECT
    (SELECT count(*) FROM document INDEXED BY document_clock
     WHERE state = 'running' AND state <> 'waiting' AND started_at >= :since)
    + (SELECT count(*) FROM document INDEXED BY document_clock
       WHERE state IN ('done', 'failed', 'cancelled', 'expired') AND state <> 'waiting'
           AND coalesce(due_at, finished_at) >= :since AND started_at >= :since),
    (SELECT count(*) FROM document INDEXED BY document_clock
     WHERE state IN ('done', 'failed') AND state <> 'waiting' AND coalesce(due_at, finished_at) >= :since),
    (SELECT count(*) FROM document INDEXED BY document_clock WHERE state = 'running' AND state <> 'waiting');

-- name: work_between
WITH ended_attempt AS (
    SELECT
        customer, CASE state WHEN 'done' THEN 'finished' ELSE state END AS ended,
        coalesce(due_at, finished_at) AS ended_at, began_at, worked
    FROM document INDEXED BY document_clock
    WHERE state IN ('done', 'failed') AND state <> 'waiting' AND coalesce(due_at, finished_at) >= :since
        AND began_at >= started_at
    UNION ALL
    SELECT customer, ended, ended_at, began_at, worked FROM attempt WHERE ended_at >= :since AND began_at IS NOT NULL
)
SELECT
    customer.name, customer.settings, ended,
    sum(ended_at < :until),
    sum(CASE WHEN ended_at < :until THEN worked ELSE 0 END),
    sum(max(0, min(began_at + worked, :until) - max(began_at, :since)))
FROM ended_attempt JOIN customer ON customer.id = ended_attempt.customer
WHERE ended_at < :until OR began_at < :until
GROUP BY customer.id, ended ORDER BY customer.name, ended;

-- name: running_claims
SELECT document.id, customer.name, customer.settings, worker, fence, started_at
FROM document INDEXED BY document_clock JOIN customer ON customer.id = document.customer
WHERE state = 'running' AND state <> 'waiting' ORDER BY fence;
