-- Earlier attempts at documents. An attempt that does not end its document is written when it ends. The last attempt of a
-- failed or cancelled document is written when it is retried by hand.
-- Rows to delete are found first, by their ctid: a join could be planned to read all attempts while there are few.

-- name: end_attempts
WITH ended_attempt AS MATERIALIZED (
    SELECT * FROM unnest(
        %(customer)s::bigint[], %(document)s::uuid[], %(fence)s::bigint[], %(number)s::int[], %(started_at)s::bigint[],
        %(ended)s::text[], %(error)s::text[], %(worker)s::text[], %(began_at)s::bigint[], %(worked)s::bigint[],
        %(queue)s::text[], %(step)s::int[], %(ready_at)s::bigint[], %(result)s::text[]
    ) AS ended_attempt (
        customer, document, fence, number, started_at, ended, error, worker, began_at, worked, queue, step, ready_at, result
    )
), oldest_removed AS (
    DELETE FROM attempt WHERE ctid = ANY (ARRAY(
        SELECT old.at FROM ended_attempt CROSS JOIN LATERAL (
            SELECT attempt.ctid AS at FROM attempt
            WHERE attempt.customer = ended_attempt.customer AND attempt.document = ended_attempt.document
                AND attempt.ended NOT IN ('step_done', 'split') AND ended_attempt.ended NOT IN ('step_done', 'split')
            ORDER BY attempt.fence DESC OFFSET %(kept)s - 1
        ) AS old
    ))
)
INSERT INTO attempt (
    customer, document, fence, number, started_at, ended_at, ended, error, worker, began_at, worked, queue, step, ready_at,
    result
)
SELECT
    customer, document, fence, number, started_at, %(now)s, ended, error, worker, began_at, worked, queue, step, ready_at,
    result
FROM ended_attempt;

-- name: end_last_attempt
INSERT INTO attempt (
    customer, document, fence, number, started_at, ended_at, ended, error, began_at, worked, queue, step, ready_at
)
SELECT
    customer, id, fence, attempt, started_at, finished_at, state, CASE state WHEN 'failed' THEN error END,
    CASE WHEN began_at >= started_at THEN began_at END, CASE WHEN began_at >= started_at THEN worked END, queue, step,
    ready_at
FROM document WHERE seq = %(seq)s AND started_at IS NOT NULL AND state IN ('failed', 'cancelled')
ON CONFLICT DO NOTHING;

-- name: attempts
SELECT fence, number, started_at, ended_at, ended, error, worker, began_at, worked, queue, step, ready_at FROM attempt
WHERE customer = (SELECT customer FROM document WHERE id = %(id)s::uuid) AND document = %(id)s::uuid
ORDER BY fence;

-- name: step_results
SELECT step, queue, result FROM attempt
WHERE customer = (SELECT customer FROM document WHERE id = %(id)s::uuid) AND document = %(id)s::uuid AND result IS NOT NULL
ORDER BY step;

-- name: forget_attempts
DELETE FROM attempt WHERE ctid = ANY (ARRAY(
    SELECT old.at FROM document CROSS JOIN LATERAL (
        SELECT attempt.ctid AS at FROM attempt
        WHERE attempt.customer = document.customer AND attempt.document = document.id OFFSET 0
    ) AS old
    WHERE document.seq = ANY (%(seq)s::bigint[])
));
