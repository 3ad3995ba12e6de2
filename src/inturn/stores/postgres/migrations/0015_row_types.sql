-- The rows that a claim writes, one type for each kind of row (`save_claim`). A list of rows is one parameter then: a
-- parameter for each column costs the server four times as much.
--
--   claimed_row    a document that was claimed
--   lane_row       a row of `lane`, with the columns that sort it
--   replaced_lane  the key of a row of `lane` that is replaced or deleted, and the ctid at which it was read
--   work_row       a row of `customer_work`
--   replaced_work  the key of a row of `customer_work` that is replaced
--   event_row      a row of `event_outbox`; `first_fence` is that of the first document where `documents` is null
--   claim_answer   the documents claimed for another session

CREATE TYPE claimed_row AS (
    customer bigint, lane int, seq bigint, fence bigint, now bigint, until bigint, worker text, charged bigint
);
CREATE TYPE lane_row AS (
    customer bigint, level int, weight double precision, turn bigint, stamp bigint, waiting bigint, head_seq bigint,
    head_ready_at bigint, head_cost double precision, scheduled boolean, scan_from bigint, out_of_turn_at bigint,
    group_turn bigint, sort_key bigint, sort_tie bigint
);
CREATE TYPE replaced_lane AS (customer bigint, level int, version bigint, at tid);
CREATE TYPE work_row AS (customer bigint, unit_time bigint, in_flight bigint);
CREATE TYPE replaced_work AS (customer bigint, version bigint);
CREATE TYPE event_row AS (
    at bigint, kind text, customers text[], documents uuid[], operator text, why text, detail text, first_fence bigint
);
CREATE TYPE claim_answer AS (pid int, answer bigint[], first_fence bigint);
