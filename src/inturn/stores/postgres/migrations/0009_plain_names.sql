-- Tables, columns and indexes get the names that the code uses. This is the map of a queue in PostgreSQL since then: one
-- schema a queue.
--
--   migration        the migrations applied
--   queue_state      one row: the policy in force, whether the queue is paused, the last maintenance round
--   scheduler_state  one row, written by claims alone: the scheduler's state and the earliest deadlines (JSON: small, always
--                    read and written whole), the last fence given and the last one reserved, and `folded`, the snapshot of
--                    the last claim that applied the lane log. `version` counts the transactions that wrote lanes. Each
--                    puts a new row in the place of the old one: the newest is found at the top of its key, however many
--                    dead rows an old transaction keeps below it
--   claim_lock       no rows. A claim locks it EXCLUSIVE, so that claims of a queue run one by one. LOCK TABLE takes no
--                    snapshot: a claim, which is REPEATABLE READ, sees the state that it found once it had the lock
--   cap_lock         no rows. The end of a run locks it ROW SHARE before it asks whether the customer has a cap. A change of
--                    a customer's settings locks it EXCLUSIVE, so that no end of a run is in flight meanwhile
--   crash_sentinel   unlogged: empty after a crash, a failover, a restore. A claim that finds it empty continues behind the
--                    last fence reserved, so that fences of lost commits are not given again
--   policy           every version of the policy
--   customer         the counter, and the settings as operators last set them. Every submit locks its row: seqs and lane
--                    changes of one customer are numbered in the order in which they happened
--   document         one row a document: the truth, and the row that transitions lock. Starts, heartbeats and ends change no
--                    column that is in an index, so that the new row stays on its page (HOT). `last_outcome` is the outcome
--                    recorded last under its fence. `result` comes last in its row
--   requeued         waiting documents that came back into a lane: released, due again, lost by their worker, expedited. The
--                    scan of the lane may have passed their seq
--   running          running documents by `lease_check_at`, which is never after `lease_until`: when to check the lease
--   ended            ended documents by their time. These three are written with their document's state, in the same
--                    transaction, and can be made anew from `document` (`file_documents`)
--   file             the files of results, by their document's seq; only done documents have any
--   lane             one customer's waiting documents of one level. `sort_key` and `sort_tie` sort open lanes in the order
--                    that scheduler_state.ordered names: turn and stamp, or the seq of the head. Before `scan_from` no document
--                    waits but those in `requeued`; null: none waits but those. Written by claims alone, a new row in the
--                    place of the old one; `version` is that of the claim
--   limits           settings, running documents and rate of customers with settings of their own, as lanes count them.
--                    `tat` is the theoretical arrival time of GCRA. Written by claims alone
--   lane_log         changes to lanes since the last claim, which applies them in the order of `number`. `n` is the change of
--                    a lane's length wherever `level` is set. `xid` finds what scheduler_state.folded did not see yet,
--                    however many dead rows lie around it
--   event_outbox     events without a number. A row becomes one event for each of its customers. Readers of events give
--                    out the numbers first, under the lock of `event_sequence`: transactions commit in another order than
--                    they begin
--   event_sequence   one row: the last number of an event, and the snapshot that gave it
--   event            the event log
--   idempotency_key  keys of submits and checks with the first answer
--   worker           the last report of each worker
--   api_key          keys for the servers of the queue, with the hash of each, never its text
--   attempt          earlier attempts at documents, with their errors
--
-- Times are microseconds. The cost of a claim does not depend on how many documents wait or have ended. Tables that change
-- all the time are vacuumed after a number of changes, not after a share of their rows.
--
-- A process of an older version asks for the old names. The server answers UndefinedTable or UndefinedColumn, which every
-- version reports as tables of another version.

DROP VIEW whole;

ALTER TABLE queue RENAME TO queue_state;
ALTER TABLE turns RENAME TO scheduler_state;
ALTER TABLE scheduler_state RENAME COLUMN standing TO state;
ALTER TABLE claiming RENAME TO claim_lock;
ALTER TABLE capping RENAME TO cap_lock;
ALTER TABLE alive RENAME TO crash_sentinel;
ALTER TABLE document RENAME COLUMN line TO lane;
ALTER TABLE document RENAME COLUMN settled TO last_outcome;
ALTER TABLE document RENAME COLUMN look_at TO lease_check_at;
ALTER VIEW document_view RENAME COLUMN line TO lane;
ALTER TABLE returned RENAME TO requeued;
ALTER TABLE requeued RENAME COLUMN line TO lane;
ALTER TABLE running RENAME COLUMN look_at TO lease_check_at;
ALTER TABLE line RENAME TO lane;
ALTER TABLE lane RENAME COLUMN filed TO scheduled;
ALTER TABLE lane RENAME COLUMN front TO scan_from;
ALTER TABLE lane RENAME COLUMN place TO sort_key;
ALTER TABLE lane RENAME COLUMN tie TO sort_tie;
ALTER TABLE limits RENAME COLUMN whole_at TO tat;
ALTER TABLE line_change RENAME TO lane_log;
ALTER TABLE news RENAME TO event_outbox;
ALTER TABLE numbering RENAME TO event_sequence;
ALTER TABLE key RENAME TO idempotency_key;
ALTER TABLE access_key RENAME TO api_key;

ALTER INDEX document_line RENAME TO document_lane;
ALTER INDEX line_place RENAME TO lane_sort;
ALTER INDEX line_age RENAME TO lane_age;
ALTER INDEX line_empty RENAME TO lane_empty;
ALTER INDEX line_change_xid RENAME TO lane_log_xid;
ALTER INDEX news_xid RENAME TO event_outbox_xid;
ALTER INDEX key_at RENAME TO idempotency_key_at;
ALTER INDEX event_by_hand RENAME TO event_operator;
ALTER INDEX event_by_hand_of RENAME TO event_customer_operator;
ALTER TABLE queue_state RENAME CONSTRAINT queue_pkey TO queue_state_pkey;
ALTER TABLE queue_state RENAME CONSTRAINT queue_one_check TO queue_state_one_check;
ALTER TABLE scheduler_state RENAME CONSTRAINT turns_pkey TO scheduler_state_pkey;
ALTER TABLE crash_sentinel RENAME CONSTRAINT alive_pkey TO crash_sentinel_pkey;
ALTER TABLE crash_sentinel RENAME CONSTRAINT alive_one_check TO crash_sentinel_one_check;
ALTER TABLE requeued RENAME CONSTRAINT returned_pkey TO requeued_pkey;
ALTER TABLE lane RENAME CONSTRAINT line_pkey TO lane_pkey;
ALTER TABLE event_sequence RENAME CONSTRAINT numbering_pkey TO event_sequence_pkey;
ALTER TABLE event_sequence RENAME CONSTRAINT numbering_one_check TO event_sequence_one_check;
ALTER TABLE idempotency_key RENAME CONSTRAINT key_pkey TO idempotency_key_pkey;
ALTER TABLE api_key RENAME CONSTRAINT access_key_pkey TO api_key_pkey;
ALTER SEQUENCE line_change_number_seq RENAME TO lane_log_number_seq;
ALTER SEQUENCE news_id_seq RENAME TO event_outbox_id_seq;

UPDATE lane_log SET kind = 'requeued' WHERE kind = 'returned';

CREATE FUNCTION require_claimed(claimed bigint, wanted bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF claimed <> wanted THEN
        RAISE EXCEPTION 'of % documents that head their lanes only % wait; run inturn doctor --repair', wanted, claimed;
    END IF;
    RETURN true;
END
$$;
