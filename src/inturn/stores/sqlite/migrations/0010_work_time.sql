-- Lanes are charged worker time, and a customer's share of the slots is limited (`inturn.policy`).
--
--   document.charged   what the lane was charged for the last claim; null if runs were not tracked
--   lane_log           `ended`: a charged document runs no more; `charged` and `worked` are its charge and its worker time
--                      in microseconds, `cost` its cost, or null if its time says nothing of the customer's others.
--                      `in_flight`: `n` charged documents of the customer run
--   customer_work      what a claim knows of a customer's work: the expected time of a document of cost 1, and how many
--                      charged documents run. Written by claims alone
--   worker.slots       the slots that take documents: none while the worker stops
--   attempt_ended      finds the attempts that ended in a span of time, whose work shares are measured by
--
-- The view `next_due` is called `deadline` now: a process of an older version, which would not settle charges, is refused
-- at its next claim.

ALTER TABLE document ADD COLUMN charged INTEGER;
ALTER TABLE lane_log ADD COLUMN charged INTEGER;
ALTER TABLE lane_log ADD COLUMN worked INTEGER;
ALTER TABLE worker ADD COLUMN slots INTEGER NOT NULL DEFAULT 0;
UPDATE worker SET slots = report ->> 'slots' WHERE NOT report ->> 'stopping';

CREATE TABLE customer_work (
    customer INTEGER PRIMARY KEY,
    unit_time INTEGER,
    in_flight INTEGER NOT NULL
) STRICT;

DROP VIEW next_due;
CREATE VIEW deadline AS
SELECT
    (SELECT min(start_by) FROM document INDEXED BY document_start_by
     WHERE start_by IS NOT NULL AND attempt = 0 AND state IN ('waiting', 'delayed')) AS start_by,
    (SELECT min(coalesce(due_at, finished_at)) FROM document INDEXED BY document_clock
     WHERE state = 'running' AND state <> 'waiting') AS lease,
    (SELECT min(coalesce(due_at, finished_at)) FROM document INDEXED BY document_clock
     WHERE state = 'delayed' AND state <> 'waiting') AS due,
    (SELECT min(rate_closed_until) FROM limits WHERE rate_closed_until IS NOT NULL) AS rate;
CREATE VIEW next_due AS
SELECT one AS start_by, one AS lease, one AS due, one AS rate FROM upgraded;

CREATE INDEX attempt_ended ON attempt (ended_at);
