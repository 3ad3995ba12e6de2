-- When a worker's slot really began a document, and how long it worked: a claim may be made ahead of that.
--
--   document.began_at, attempt.began_at   between the claim (`started_at`) and its record; null: nobody has said
--   document.worked, attempt.worked       microseconds
--   document.old_result                   results recorded before: a result comes last in its row, and columns can be
--                                         added at the end alone
--   worker.at_work                        documents that its slots work on, JSON: by id, for how many microseconds
--   document_view                         a document as it is read; `whole` is what older versions read
--
-- A process of an older version claims without forgetting what stands here of an attempt before: whatever began before
-- its claim is no news of it.

ALTER TABLE document RENAME COLUMN result TO old_result;
ALTER TABLE document ADD COLUMN began_at INTEGER;
ALTER TABLE document ADD COLUMN worked INTEGER;
ALTER TABLE document ADD COLUMN result TEXT;
ALTER TABLE attempt ADD COLUMN began_at INTEGER;
ALTER TABLE attempt ADD COLUMN worked INTEGER;
ALTER TABLE worker ADD COLUMN at_work TEXT;

CREATE VIEW document_view AS
SELECT
    document.id, customer.name AS customer, document.seq, document.level, document.count, document.state,
    document.submitted_at, document.ready_at, CASE document.state WHEN 'delayed' THEN document.due_at END AS due_at,
    document.started_at, document.finished_at, document.attempt, document.fence, document.worker,
    CASE document.state WHEN 'running' THEN document.due_at END AS lease_until, document.line, document.error,
    document.name, document.uri, document.blob, document.sha256, document.size, document.media_type, document.batch,
    document.metadata, document.cost, document.delay, document.start_by, document.max_attempts, document.pages,
    CASE WHEN document.began_at >= document.started_at THEN document.began_at END AS began_at,
    CASE WHEN document.began_at >= document.started_at THEN document.worked END AS worked,
    document.customer AS owner
FROM document JOIN customer ON customer.id = document.customer;
