-- Events name the queue in which they happened.
--
--   event.queue          null for the queue `default`, and for events without documents
--   event_outbox.queues  the queue of each document, or of all; null if all are in the queue `default`
--   event_row.queues     the same

ALTER TABLE event ADD COLUMN queue text;
ALTER TABLE event_outbox ADD COLUMN queues text[];
ALTER TYPE event_row ADD ATTRIBUTE queues text[];
