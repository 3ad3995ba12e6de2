-- Steps: documents that pass through several queues. Parts: documents that are split. Limits of queues.
--
--   document.queue       the queue that it belongs to now; `first_queue` is the one it was submitted to, once that is another
--   document.steps       the queues that it was submitted for, with commas between them; null for one
--   document.ahead       those planned after the present one; null if there are none
--   document.step        how many steps it has behind it
--   document.parent      the id of the document that it is a part of; `part` is its number, from 1, and `split_step` the
--                        step in which that document was split. A document whose parts are processed has the state `split`
--   document.unended_parent  `parent` while the part has not ended. An index on `finished_at` instead would keep every end
--                        of a document from being a HOT update: half as many pages again for each
--   attempt.queue, step, ready_at  where the attempt was made, and since when the document had waited there
--   attempt.result       the result of the step that this attempt ended; null for all others, and for those of documents that
--                        were retried from the start
--   file.step            the step whose result has the file
--   lane_log.kind        `part_ended`: the document of this seq, a part, has ended
--   named_queue          cap, rate_documents and rate_per are its limits, `manual` and `form` are for people who serve it
--   queue_rate           `tat` is the state of a queue's rate limit (GCRA). It is not in named_queue, because a claim writes it
--                        and must not wait for a transaction of a user's that makes a queue
--
-- named_queue.weight is called `turn_weight` now: a process of an older version, which would end a document after its first
-- step, is refused at its next claim.

ALTER TABLE document
    ADD COLUMN steps text, ADD COLUMN first_queue text, ADD COLUMN step int NOT NULL DEFAULT 0, ADD COLUMN ahead text,
    ADD COLUMN parent uuid, ADD COLUMN part int, ADD COLUMN split_step int, ADD COLUMN unended_parent uuid;
CREATE INDEX document_part ON document (parent, split_step, part) WHERE parent IS NOT NULL;
CREATE INDEX document_unended_part ON document (unended_parent) WHERE unended_parent IS NOT NULL;

ALTER TABLE attempt
    ADD COLUMN queue text NOT NULL DEFAULT 'default', ADD COLUMN step int NOT NULL DEFAULT 0, ADD COLUMN ready_at bigint,
    ADD COLUMN result text;
UPDATE attempt SET queue = document.queue FROM document WHERE document.id = attempt.document AND document.queue <> 'default';

ALTER TABLE file ADD COLUMN step int NOT NULL DEFAULT 0;
ALTER TABLE file DROP CONSTRAINT file_pkey;
ALTER TABLE file ADD PRIMARY KEY (document, step, name);

ALTER TABLE named_queue
    ADD COLUMN cap bigint, ADD COLUMN rate_documents bigint, ADD COLUMN rate_per bigint,
    ADD COLUMN manual int NOT NULL DEFAULT 0, ADD COLUMN form text;
ALTER TABLE named_queue RENAME COLUMN weight TO turn_weight;
CREATE TABLE queue_rate (
    queue int PRIMARY KEY,
    tat bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

DROP VIEW document_view;
CREATE VIEW document_view AS
SELECT
    document.id, customer.name AS customer, document.seq, document.level, document.count, document.state,
    document.submitted_at, document.ready_at, document.due_at, document.started_at, document.finished_at,
    document.attempt, document.fence, document.worker, document.lease_until, document.lane, document.error,
    document.name, document.uri, document.blob, document.sha256, document.size, document.media_type, document.batch,
    document.metadata, document.cost, document.delay, document.start_by, document.max_attempts, document.pages,
    CASE WHEN document.began_at >= document.started_at THEN document.began_at END AS began_at,
    CASE WHEN document.began_at >= document.started_at THEN document.worked END AS worked,
    document.group_name, document.queue, document.steps, document.first_queue, document.step, document.ahead,
    document.parent, document.part, document.customer AS owner, document.lower_name
FROM document JOIN customer ON customer.id = document.customer;
