-- Events name the queue in which they happened.
--
--   event.queue  null for the queue `default`, and for events without documents

ALTER TABLE event ADD COLUMN queue TEXT;
