-- Earlier attempts at documents. An attempt that does not end its document is written when it ends. The last attempt of a
-- failed or cancelled document is written when it is retried by hand.

-- name: end_attempts
INSERT INTO attempt (
    customer, document, fence, number, started_at, ended_at, ended, error, worker, began_at, worked, queue, step, ready_at,
    result
) VALUES (
    :customer, unhex(:document, '-'), :fence, :number, :started_at, :now, :ended, :error, :worker, :began_at, :worked,
    :queue, :step, :ready_at, :result
);
DELETE FROM attempt
WHERE customer = :customer AND document = unhex(:document, '-') AND ended NOT IN ('step_done', 'split') AND fence < (
    SELECT fence FROM attempt
    WHERE customer = :customer AND document = unhex(:document, '-') AND ended NOT IN ('step_done', 'split')
    ORDER BY fence DESC LIMIT 1 OFFSET :kept - 1
);

-- name: end_last_attempt
INSERT OR IGNORE INTO attempt (
    customer, document, fence, number, started_at, ended_at, ended, error, began_at, worked, queue, step, ready_at
)
SELECT
    customer, id, fence, attempt, started_at, finished_at, state, CASE state WHEN 'failed' THEN error END,
    CASE WHEN began_at >= started_at THEN began_at END, CASE WHEN began_at >= started_at THEN worked END, queue, step,
    ready_at
FROM document WHERE seq = :seq AND started_at IS NOT NULL AND state IN ('failed', 'cancelled');

-- name: attempts
SELECT fence, number, started_at, ended_at, ended, error, worker, began_at, worked, queue, step, ready_at FROM attempt
WHERE customer = (SELECT customer FROM document WHERE id = unhex(:id, '-')) AND document = unhex(:id, '-')
ORDER BY fence;

-- name: step_results
SELECT step, queue, result FROM attempt
WHERE customer = (SELECT customer FROM document WHERE id = unhex(:id, '-')) AND document = unhex(:id, '-')
    AND result IS NOT NULL
ORDER BY step;

-- name: forget_attempts
DELETE FROM attempt WHERE (customer, document) = (SELECT customer, id FROM document WHERE seq = :seq);
