-- When a worker's slot really began a document, and how long it worked: a claim may be made ahead of that.
--
--   document.began_at, attempt.began_at   between the claim (`started_at`) and its record; null: nobody has said
--   document.worked, attempt.worked       microseconds
--   worker.at_work                        documents that its slots work on, JSON: by id, for how many microseconds
--   document_view                         a document as it is read; `whole` is what older versions read
--
-- A process of an older version claims without forgetting what stands here of an attempt before: whatever began before
-- its claim is no news of it.

ALTER TABLE document ADD COLUMN began_at bigint, ADD COLUMN worked bigint;
ALTER TABLE attempt ADD COLUMN began_at bigint, ADD COLUMN worked bigint;
ALTER TABLE worker ADD COLUMN at_work text;

CREATE VIEW document_view AS
SELECT
    document.id, customer.name AS customer, document.seq, document.level, document.count, document.state,
    document.submitted_at, document.ready_at, document.due_at, document.started_at, document.finished_at,
    document.attempt, document.fence, document.worker, document.lease_until, document.line, document.error,
    document.name, document.uri, document.blob, document.sha256, document.size, document.media_type, document.batch,
    document.metadata, document.cost, document.delay, document.start_by, document.max_attempts, document.pages,
    CASE WHEN document.began_at >= document.started_at THEN document.began_at END AS began_at,
    CASE WHEN document.began_at >= document.started_at THEN document.worked END AS worked,
    document.customer AS owner, document.lower_name
FROM document JOIN customer ON customer.id = document.customer;
