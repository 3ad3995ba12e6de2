-- Steps: documents that pass through several queues. Parts: documents that are split. Limits of queues.
--
--   document.queue       the queue that it belongs to now; `first_queue` is the one it was submitted to, once that is another
--   document.steps       the queues that it was submitted for, with commas between them; null for one
--   document.ahead       those planned after the present one; null if there are none
--   document.step        how many steps it has behind it
--   document.parent      the id of the document that it is a part of; `part` is its number, from 1, and `split_step` the
--                        step in which that document was split. A document whose parts are processed has the state `split`
--   attempt.queue, step, ready_at  where the attempt was made, and since when the document had waited there
--   attempt.result       the result of the step that this attempt ended; null for all others, and for those of documents that
--                        were retried from the start
--   file.step            the step whose result has the file
--   lane_log.kind        `part_ended`: the document of this seq, a part, has ended
--   named_queue          cap, rate_documents and rate_per are its limits, `manual` and `form` are for people who serve it
--   queue_rate           `tat` is the state of a queue's rate limit (GCRA). Claims write it
--
-- named_queue.weight is called `turn_weight` now: a process of an older version, which would end a document after its first
-- step, is refused at its next claim.

ALTER TABLE document ADD COLUMN steps TEXT;
ALTER TABLE document ADD COLUMN first_queue TEXT;
ALTER TABLE document ADD COLUMN step INTEGER NOT NULL DEFAULT 0;
ALTER TABLE document ADD COLUMN ahead TEXT;
ALTER TABLE document ADD COLUMN parent BLOB;
ALTER TABLE document ADD COLUMN part INTEGER;
ALTER TABLE document ADD COLUMN split_step INTEGER;
CREATE INDEX document_part ON document (parent, split_step, part) WHERE parent IS NOT NULL;
CREATE INDEX document_unended_part ON document (parent) WHERE parent IS NOT NULL AND finished_at IS NULL;

ALTER TABLE attempt ADD COLUMN queue TEXT NOT NULL DEFAULT 'default';
ALTER TABLE attempt ADD COLUMN step INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN ready_at INTEGER;
ALTER TABLE attempt ADD COLUMN result TEXT;
UPDATE attempt SET queue = document.queue FROM document WHERE document.id = attempt.document AND document.queue <> 'default';

CREATE TABLE new_file (
    document INTEGER NOT NULL,
    step INTEGER NOT NULL DEFAULT 0,
    name TEXT NOT NULL,
    blob TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    media_type TEXT,
    PRIMARY KEY (document, step, name)
) STRICT, WITHOUT ROWID;
INSERT INTO new_file (document, name, blob, size, sha256, media_type)
SELECT document, name, blob, size, sha256, media_type FROM file;
DROP TABLE file;
ALTER TABLE new_file RENAME TO file;
CREATE INDEX file_blob ON file (blob);

ALTER TABLE named_queue ADD COLUMN cap INTEGER;
ALTER TABLE named_queue ADD COLUMN rate_documents INTEGER;
ALTER TABLE named_queue ADD COLUMN rate_per INTEGER;
ALTER TABLE named_queue ADD COLUMN manual INTEGER NOT NULL DEFAULT 0;
ALTER TABLE named_queue ADD COLUMN form TEXT;
ALTER TABLE named_queue RENAME COLUMN weight TO turn_weight;
CREATE TABLE queue_rate (
    queue INTEGER PRIMARY KEY,
    tat INTEGER NOT NULL
) STRICT;

DROP VIEW document_view;
CREATE VIEW document_view AS
SELECT
    document.id, customer.name AS customer, document.seq, document.level, document.count, document.state,
    document.submitted_at, document.ready_at, CASE document.state WHEN 'delayed' THEN document.due_at END AS due_at,
    document.started_at, document.finished_at, document.attempt, document.fence, document.worker,
    CASE document.state WHEN 'running' THEN document.due_at END AS lease_until, document.lane, document.error,
    document.name, document.uri, document.blob, document.sha256, document.size, document.media_type, document.batch,
    document.metadata, document.cost, document.delay, document.start_by, document.max_attempts, document.pages,
    CASE WHEN document.began_at >= document.started_at THEN document.began_at END AS began_at,
    CASE WHEN document.began_at >= document.started_at THEN document.worked END AS worked,
    document.group_name, document.queue, document.steps, document.first_queue, document.step, document.ahead,
    document.parent, document.part, document.customer AS owner
FROM document JOIN customer ON customer.id = document.customer;
