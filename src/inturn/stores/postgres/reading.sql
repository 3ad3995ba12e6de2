-- What can be seen of a queue, for `reading.py`: lists, counts, events, what goes before a document. Of one customer's
-- documents each line is read by its index and all are merged: rows are compared so that no other index will do.

-- name: result
SELECT seq, result FROM document WHERE id = %(id)s::uuid;

-- name: newest_documents
SELECT * FROM document_view
WHERE seq < %(after)s
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
  AND (NOT %(running)s::boolean OR seq = ANY (ARRAY(SELECT seq FROM running)))
  AND (%(level)s::int IS NULL OR level = %(level)s::int)
  AND (%(batch)s::text IS NULL OR batch = %(batch)s::text)
  AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
ORDER BY seq DESC LIMIT %(limit)s;

-- name: newest_documents_of
SELECT whole.* FROM unnest(%(lines)s::int[]) AS each (line)
CROSS JOIN LATERAL (
    SELECT * FROM document_view
    WHERE (owner, line, seq) < (%(owner)s::bigint, each.line, %(after)s)
      AND (owner, line, seq) >= (%(owner)s::bigint, each.line, 0)
      AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
      AND (NOT %(running)s::boolean OR seq = ANY (ARRAY(SELECT seq FROM running)))
      AND (%(level)s::int IS NULL OR level = %(level)s::int)
      AND (%(batch)s::text IS NULL OR batch = %(batch)s::text)
      AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
    ORDER BY owner DESC, line DESC, seq DESC LIMIT %(limit)s
) AS whole
ORDER BY seq DESC LIMIT %(limit)s;

-- name: oldest_documents
SELECT * FROM document_view
WHERE seq > %(after)s
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
  AND (NOT %(running)s::boolean OR seq = ANY (ARRAY(SELECT seq FROM running)))
  AND (%(level)s::int IS NULL OR level = %(level)s::int)
  AND (%(batch)s::text IS NULL OR batch = %(batch)s::text)
  AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
ORDER BY seq LIMIT %(limit)s;

-- name: oldest_documents_of
SELECT whole.* FROM unnest(%(lines)s::int[]) AS each (line)
CROSS JOIN LATERAL (
    SELECT * FROM document_view
    WHERE (owner, line, seq) > (%(owner)s::bigint, each.line, %(after)s)
      AND (owner, line, seq) <= (%(owner)s::bigint, each.line, 9223372036854775807)
      AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
      AND (NOT %(running)s::boolean OR seq = ANY (ARRAY(SELECT seq FROM running)))
      AND (%(level)s::int IS NULL OR level = %(level)s::int)
      AND (%(batch)s::text IS NULL OR batch = %(batch)s::text)
      AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
    ORDER BY owner, line, seq LIMIT %(limit)s
) AS whole
ORDER BY seq LIMIT %(limit)s;

-- name: counts
SELECT state, CASE state WHEN 'waiting' THEN line END, count(*) FROM document
WHERE (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
  AND (NOT %(running)s::boolean OR seq = ANY (ARRAY(SELECT seq FROM running)))
  AND (%(owner)s::bigint IS NULL OR customer = %(owner)s::bigint)
  AND (%(level)s::int IS NULL OR level = %(level)s::int)
  AND (%(batch)s::text IS NULL OR batch = %(batch)s::text)
  AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
GROUP BY 1, 2;

-- name: customers
WITH changed AS (
    SELECT customer, sum(n) AS n FROM line_change WHERE level IS NOT NULL GROUP BY customer
)
SELECT id, name, count, updated_at, settings FROM customer LEFT JOIN changed ON changed.customer = customer.id
WHERE (%(name)s::text IS NULL OR name = %(name)s::text)
  AND (%(after)s::text IS NULL OR name > %(after)s::text)
  AND (%(text)s::text IS NULL OR strpos(coalesce(lower_name, name), %(text)s::text) > 0)
  AND (%(paused)s::boolean IS NULL OR paused = %(paused)s::boolean)
  AND (%(waiting)s::boolean IS NULL OR %(waiting)s::boolean = (
      coalesce((SELECT sum(waiting) FROM line WHERE line.customer = customer.id), 0) + coalesce(changed.n, 0) > 0
  ))
ORDER BY name LIMIT %(limit)s;

-- name: waiting_by_line
SELECT customer, level, sum(n)::bigint FROM (
    SELECT customer, level, waiting AS n FROM line WHERE customer = ANY (%(ids)s::bigint[])
    UNION ALL
    SELECT customer, level, n FROM line_change WHERE level IS NOT NULL AND customer = ANY (%(ids)s::bigint[])
) AS told
GROUP BY customer, level HAVING sum(n) > 0 ORDER BY customer, level;

-- name: open_lines
SELECT customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost
FROM line WHERE filed ORDER BY level, turn, stamp;

-- name: ahead
WITH mine AS MATERIALIZED (
    SELECT seq, customer, line FROM document WHERE id = %(id)s::uuid AND state = 'waiting'
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
    (SELECT count(*) FROM document AS other
     WHERE other.customer = mine.customer AND other.line = mine.line AND other.state = 'waiting'
         AND other.seq >= front.seq AND other.seq < mine.seq)
    + (SELECT count(*) FROM returned
       WHERE returned.customer = mine.customer AND returned.line = mine.line
           AND returned.seq < least(front.seq, mine.seq))
FROM mine, front;

-- name: pace
SELECT
    (SELECT count(*) FROM running JOIN document ON document.seq = running.seq WHERE started_at >= %(since)s)
    + (SELECT count(*) FROM ended JOIN document ON document.seq = ended.seq
       WHERE ended.finished_at >= %(since)s AND started_at >= %(since)s),
    (SELECT count(*) FROM ended JOIN document ON document.seq = ended.seq
     WHERE ended.finished_at >= %(since)s AND state IN ('done', 'failed')),
    (SELECT count(*) FROM running);

-- name: events
SELECT number, at, kind, customer, documents, operator, why, detail FROM event
WHERE number > %(after)s ORDER BY number LIMIT %(limit)s;
