-- What the history reads of documents, and how its rows are written. The rest is in sql/history.sql. Documents are read
-- one by one: without statistics a join could be planned to read all of them.

-- name: history_facts
SELECT wanted.id, level, ready_at, started_at, finished_at, worked
FROM unnest(%(id)s::uuid[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT
        mod(lane, 10) AS level, ready_at, started_at, finished_at,
        CASE WHEN began_at >= started_at THEN worked END AS worked
    FROM document WHERE document.id = wanted.id OFFSET 0
) AS facts;

-- name: attempt_facts
SELECT wanted.id, started_at, ended_at, worked, ready_at
FROM unnest(%(id)s::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT customer FROM document WHERE document.id = wanted.id OFFSET 0) AS owner
CROSS JOIN LATERAL (
    SELECT started_at, ended_at, worked, ready_at FROM attempt
    WHERE attempt.customer = owner.customer AND attempt.document = wanted.id OFFSET 0
) AS attempts;

-- name: sampled_runs
SELECT queue, customer.name, mod(lane, 10), count(*)
FROM running JOIN document ON document.seq = running.seq JOIN customer ON customer.id = document.customer GROUP BY 1, 2, 3;

-- name: save_history
INSERT INTO history (span, at, scope, key, figures)
SELECT * FROM unnest(%(span)s::bigint[], %(at)s::bigint[], %(scope)s::text[], %(key)s::text[], %(figures)s::text[])
ON CONFLICT (span, at, scope, key) DO UPDATE SET figures = excluded.figures;

-- name: forget_history
DELETE FROM history USING unnest(%(span)s::bigint[], %(at)s::bigint[], %(scope)s::text[], %(key)s::text[])
    AS gone (span, at, scope, key)
WHERE history.span = gone.span AND history.at = gone.at AND history.scope = gone.scope AND history.key = gone.key;
