-- What operators see and do: workers that are paused, documents that failed, and how good expected starts were.
--
--   worker.version               the version of Inturn that the worker runs
--   worker.started_at            when its process started. A report of another process ends the pause
--   worker.paused_by …           who paused the worker, why and when; null: it takes documents
--   ended.failed                 whether the document failed. ended_failed finds the newest of those
--   queue_state.forecasts        how long documents waited against what was forecast, by hour (JSON: small, always read and
--                                written whole)

ALTER TABLE worker ADD COLUMN version text;
ALTER TABLE worker ADD COLUMN started_at bigint;
ALTER TABLE worker ADD COLUMN paused_by text;
ALTER TABLE worker ADD COLUMN paused_why text;
ALTER TABLE worker ADD COLUMN paused_at bigint;
ALTER TABLE queue_state ADD COLUMN forecasts text;

ALTER TABLE ended ADD COLUMN failed boolean NOT NULL DEFAULT false;
UPDATE ended SET failed = true FROM document WHERE document.seq = ended.seq AND document.state = 'failed';
CREATE INDEX ended_failed ON ended (finished_at, seq) WHERE failed;
