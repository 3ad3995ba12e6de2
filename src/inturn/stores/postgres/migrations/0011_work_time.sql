-- Lanes are charged worker time, and a customer's share of the slots is limited (`inturn.policy`).
--
--   document.charged   what the lane was charged for the last claim; null if runs were not tracked
--   lane_log           `ended`: a charged document runs no more; `charged` and `worked` are its charge and its worker time
--                      in microseconds, `cost` its cost, or null if its time says nothing of the customer's others.
--                      `in_flight`: `n` charged documents of the customer run
--   customer_work      what a claim knows of a customer's work: the expected time of a document of cost 1, and how many
--                      charged documents run. Written by claims alone, a new row in the place of the old one, as in `lane`:
--                      the newest is found at the top of its key, however many dead rows an old transaction keeps below it
--   worker.slots       the slots that take documents: none while the worker stops
--   attempt_ended      finds the attempts that ended in a span of time, whose work shares are measured by
--
-- scheduler_state.state is called `scheduler` now: a process of an older version, which would not settle charges, is
-- refused at its next claim.

ALTER TABLE document ADD COLUMN charged bigint;
ALTER TABLE lane_log ADD COLUMN charged bigint, ADD COLUMN worked bigint;
ALTER TABLE worker ADD COLUMN slots bigint NOT NULL DEFAULT 0;
UPDATE worker SET slots = (report::json ->> 'slots')::bigint WHERE NOT (report::json ->> 'stopping')::boolean;
ALTER TABLE scheduler_state RENAME COLUMN state TO scheduler;

CREATE TABLE customer_work (
    customer bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    unit_time bigint,
    in_flight bigint NOT NULL,
    PRIMARY KEY (customer, version)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX attempt_ended ON attempt (ended_at);
