-- What can be seen of a queue, for `reading.py`: lists, counts, events, what goes before a document.

-- name: result
SELECT seq, coalesce(result, old_result) FROM document WHERE id = :id;

-- name: newest_documents
SELECT * FROM document_view
WHERE seq < :after
  AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:level IS NULL OR level = :level)
  AND (:batch IS NULL OR batch = :batch)
  AND (:text IS NULL OR instr(lowered(name), :text) > 0)
ORDER BY seq DESC LIMIT :limit;

-- name: newest_documents_of
SELECT * FROM document_view
WHERE owner = :owner AND line = :line
  AND seq < :after
  AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:level IS NULL OR level = :level)
  AND (:batch IS NULL OR batch = :batch)
  AND (:text IS NULL OR instr(lowered(name), :text) > 0)
ORDER BY seq DESC LIMIT :limit;

-- name: oldest_documents
SELECT * FROM document_view
WHERE seq > :after
  AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:level IS NULL OR level = :level)
  AND (:batch IS NULL OR batch = :batch)
  AND (:text IS NULL OR instr(lowered(name), :text) > 0)
ORDER BY seq ASC LIMIT :limit;

-- name: oldest_documents_of
SELECT * FROM document_view
WHERE owner = :owner AND line = :line
  AND seq > :after
  AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:level IS NULL OR level = :level)
  AND (:batch IS NULL OR batch = :batch)
  AND (:text IS NULL OR instr(lowered(name), :text) > 0)
ORDER BY seq ASC LIMIT :limit;

-- name: counts
SELECT state, CASE state WHEN 'waiting' THEN line END, count(*) FROM document
WHERE (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:owner IS NULL OR customer = :owner)
  AND (:level IS NULL OR level = :level)
  AND (:batch IS NULL OR batch = :batch)
  AND (:text IS NULL OR instr(lowered(name), :text) > 0)
GROUP BY 1, 2;

-- name: customers
WITH changed AS MATERIALIZED (
    SELECT customer, sum(n) AS n FROM line_change WHERE level IS NOT NULL GROUP BY customer
)
SELECT id, name, count, updated_at, settings FROM customer
WHERE name > coalesce(:after, '')
  AND (:text IS NULL OR instr(lowered(name), :text) > 0)
  AND (:paused IS NULL OR paused = :paused)
  AND (:waiting IS NULL OR :waiting = (0 <
      coalesce((SELECT sum(waiting) FROM line WHERE line.customer = customer.id), 0)
      + coalesce((SELECT n FROM changed WHERE changed.customer = customer.id), 0)
  ))
ORDER BY name LIMIT :limit;

-- name: waiting_by_line
SELECT customer, level, sum(n) FROM (
    SELECT customer, level, waiting AS n FROM line WHERE customer IN (SELECT value FROM json_each(:customers))
    UNION ALL
    SELECT customer, level, n FROM line_change WHERE level IS NOT NULL AND customer IN (SELECT value FROM json_each(:customers))
)
GROUP BY 1, 2 HAVING sum(n) > 0 ORDER BY 1, 2;

-- name: running_by_customer
SELECT customer, count(*) FROM document INDEXED BY document_clock
WHERE state = 'running' AND state <> 'waiting' GROUP BY 1;

-- name: rate_closed
SELECT customer, settings FROM limits
WHERE rate_closed_until IS NOT NULL AND customer IN (SELECT value FROM json_each(:customers));

-- name: open_lines
SELECT customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front,
    EXISTS (SELECT 1 FROM limits WHERE limits.customer = line.customer)
FROM line WHERE filed = 1;

-- name: ahead
WITH mine AS MATERIALIZED (
    SELECT seq, customer, line FROM document WHERE id = :id AND state = 'waiting'
), front AS MATERIALIZED (
    SELECT coalesce(
        (SELECT front FROM line WHERE line.customer = mine.customer AND line.level = mine.line),
        (SELECT min(seq) FROM line_change
         WHERE kind = 'joined' AND line_change.customer = mine.customer AND line_change.level = mine.line),
        9223372036854775807
    ) AS seq
    FROM mine
)
SELECT
    (SELECT count(*) FROM document INDEXED BY document_line
     WHERE customer = mine.customer AND line = mine.line AND seq >= front.seq AND seq < mine.seq AND state = 'waiting')
    + (SELECT count(*) FROM returned
       WHERE customer = mine.customer AND line = mine.line AND seq < min(front.seq, mine.seq))
FROM mine, front;

-- name: pace
SELECT
    (SELECT count(*) FROM document INDEXED BY document_clock
     WHERE state = 'running' AND state <> 'waiting' AND started_at >= :since)
    + (SELECT count(*) FROM document INDEXED BY document_clock
       WHERE state IN ('done', 'failed', 'cancelled', 'expired') AND state <> 'waiting'
           AND coalesce(due_at, finished_at) >= :since AND started_at >= :since),
    (SELECT count(*) FROM document INDEXED BY document_clock
     WHERE state IN ('done', 'failed') AND state <> 'waiting' AND coalesce(due_at, finished_at) >= :since),
    (SELECT count(*) FROM document INDEXED BY document_clock WHERE state = 'running' AND state <> 'waiting');

-- name: events
SELECT number, at, kind, customer, documents, operator, why, detail FROM event
WHERE number > :after ORDER BY number LIMIT :limit;
