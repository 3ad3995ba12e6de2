-- What a purge and the retention of ended documents delete.

-- name: lock_unended_documents
SELECT seq FROM document WHERE customer = :customer AND false;

-- name: purge_files
DELETE FROM file WHERE document IN (SELECT seq FROM document WHERE customer = :customer);

-- name: purge_documents
SELECT state, lane, count(*) FROM document WHERE customer = :customer GROUP BY state, lane;
DELETE FROM requeued WHERE customer = :customer;
DELETE FROM document WHERE customer = :customer;

-- name: ended_before
SELECT seq, blob FROM (
    SELECT * FROM (
        SELECT seq, blob, finished_at FROM document INDEXED BY document_clock
        WHERE state = 'done' AND state <> 'waiting' AND coalesce(due_at, finished_at) < :before AND seq <= :up_to
            AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps)
            AND NOT EXISTS (SELECT 1 FROM document AS whole WHERE whole.id = document.parent AND coalesce(whole.finished_at >= :before, true))
        ORDER BY coalesce(due_at, finished_at), seq LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT seq, blob, finished_at FROM document INDEXED BY document_clock
        WHERE state = 'failed' AND state <> 'waiting' AND coalesce(due_at, finished_at) < :before AND seq <= :up_to
            AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps)
            AND NOT EXISTS (SELECT 1 FROM document AS whole WHERE whole.id = document.parent AND coalesce(whole.finished_at >= :before, true))
        ORDER BY coalesce(due_at, finished_at), seq LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT seq, blob, finished_at FROM document INDEXED BY document_clock
        WHERE state = 'cancelled' AND state <> 'waiting' AND coalesce(due_at, finished_at) < :before AND seq <= :up_to
            AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps)
            AND NOT EXISTS (SELECT 1 FROM document AS whole WHERE whole.id = document.parent AND coalesce(whole.finished_at >= :before, true))
        ORDER BY coalesce(due_at, finished_at), seq LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT seq, blob, finished_at FROM document INDEXED BY document_clock
        WHERE state = 'expired' AND state <> 'waiting' AND coalesce(due_at, finished_at) < :before AND seq <= :up_to
            AND NOT EXISTS (SELECT 1 FROM customer WHERE customer.id = document.customer AND customer.keeps)
            AND NOT EXISTS (SELECT 1 FROM document AS whole WHERE whole.id = document.parent AND coalesce(whole.finished_at >= :before, true))
        ORDER BY coalesce(due_at, finished_at), seq LIMIT :limit
    )
)
ORDER BY finished_at, seq LIMIT :limit;

-- name: ended_before_of
SELECT seq, blob FROM document INDEXED BY document_lane
WHERE customer = :customer AND finished_at IS NOT NULL AND finished_at < :before AND seq <= :up_to
    AND NOT EXISTS (SELECT 1 FROM document AS whole WHERE whole.id = document.parent AND coalesce(whole.finished_at >= :before, true))
ORDER BY finished_at, seq LIMIT :limit;

-- name: forget_documents
DELETE FROM document WHERE seq = :seq;
