-- What the history reads of documents, and how its rows are written. The rest is in sql/history.sql.

-- name: history_facts
SELECT
    document.id, lane % 10, ready_at, started_at, finished_at, CASE WHEN began_at >= started_at THEN worked END
FROM json_each(:rows) CROSS JOIN document ON document.id = unhex(value ->> 0, '-');

-- name: attempt_facts
SELECT document.id, attempt.started_at, attempt.ended_at, attempt.worked, attempt.ready_at
FROM json_each(:rows) CROSS JOIN document ON document.id = unhex(value ->> 0, '-')
    JOIN attempt ON attempt.customer = document.customer AND attempt.document = document.id;

-- name: sampled_runs
SELECT queue, customer.name, lane % 10, count(*) FROM document INDEXED BY document_clock JOIN customer ON customer.id = document.customer
WHERE state = 'running' AND state <> 'waiting' GROUP BY 1, 2, 3;

-- name: save_history
INSERT INTO history (span, at, scope, key, figures) VALUES (:span, :at, :scope, :key, :figures)
ON CONFLICT (span, at, scope, key) DO UPDATE SET figures = excluded.figures;

-- name: forget_history
DELETE FROM history WHERE span = :span AND at = :at AND scope = :scope AND key = :key;
