-- What an exchange writes is counted in pages: five where it was nine.
--
--   queue.unsaved   lines that claims have taken from since their rows were written: JSON, a list of the first eleven columns
--                   of `line` for each. The queue's row is written by every claim anyway. A line stands here only
--                   while its own row is there, open, and with a front that is not too far; whoever reads lines anew to
--                   take from them writes these rows first
--   document_clock  one order for what runs or is delayed (by `due_at`) and what has ended (by `finished_at`): what ends now
--                   and what is leased now stand side by side
--
-- `line_length` tells by how much lines are longer or shorter than their rows say. `next_due` was called `deadline`: a
-- process of an older version, to which unsaved lines mean nothing, is refused there before it claims.

ALTER TABLE queue ADD COLUMN unsaved TEXT NOT NULL DEFAULT '[]';

DROP VIEW deadline;
DROP INDEX document_due;
DROP INDEX document_ended;

CREATE INDEX document_clock ON document (state, coalesce(due_at, finished_at)) WHERE state <> 'waiting';

CREATE VIEW next_due AS
SELECT
    (SELECT min(start_by) FROM document INDEXED BY document_start_by
     WHERE start_by IS NOT NULL AND attempt = 0 AND state IN ('waiting', 'delayed')) AS start_by,
    (SELECT min(coalesce(due_at, finished_at)) FROM document INDEXED BY document_clock
     WHERE state = 'running' AND state <> 'waiting') AS lease,
    (SELECT min(coalesce(due_at, finished_at)) FROM document INDEXED BY document_clock
     WHERE state = 'delayed' AND state <> 'waiting') AS due,
    (SELECT min(rate_closed_until) FROM limits WHERE rate_closed_until IS NOT NULL) AS rate;

CREATE VIEW line_length AS
SELECT customer, level, n FROM line_change WHERE level IS NOT NULL
UNION ALL
SELECT line.customer, line.level, json_extract(value, '$[5]') - line.waiting
FROM queue
    CROSS JOIN json_each(queue.unsaved)
    CROSS JOIN line ON line.customer = json_extract(value, '$[0]') AND line.level = json_extract(value, '$[1]');
