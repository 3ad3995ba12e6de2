-- What operators see and do: workers that are paused, and how good expected starts were.
--
--   worker.version               the version of Inturn that the worker runs
--   worker.started_at            when its process started. A report of another process ends the pause
--   worker.paused_by …           who paused the worker, why and when; null: it takes documents
--   queue_state.forecasts        how long documents waited against what was forecast, by hour (JSON: small, always read and
--                                written whole)

ALTER TABLE worker ADD COLUMN version TEXT;
ALTER TABLE worker ADD COLUMN started_at INTEGER;
ALTER TABLE worker ADD COLUMN paused_by TEXT;
ALTER TABLE worker ADD COLUMN paused_why TEXT;
ALTER TABLE worker ADD COLUMN paused_at INTEGER;
ALTER TABLE queue_state ADD COLUMN forecasts TEXT;
