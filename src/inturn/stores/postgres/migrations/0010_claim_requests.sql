-- Claims that combine (`claims.py`): a claimer that cannot have its turn at once leaves its claim here, and whoever has the
-- turn claims for it.
--
--   claim_request    one row for each session that had to wait lately. `ticket` is the session's own number of the claim,
--                    `answer` are the seqs of the documents that were claimed for it, under fences from `first_fence` on;
--                    null: it still waits. Unlogged: a session does not outlive a crash
--   take_claim_turn  waits for the turn, an advisory lock of the session by the oid of `claim_lock`. Returns whether the
--                    session has it, and has to claim for all that wait; otherwise its claim was answered

CREATE UNLOGGED TABLE claim_request (
    pid int PRIMARY KEY,
    ticket bigint NOT NULL,
    worker text NOT NULL,
    max_documents bigint NOT NULL,
    lease bigint NOT NULL,
    now bigint,
    asked_at timestamptz NOT NULL,
    answer bigint[],
    first_fence bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE PROCEDURE take_claim_turn(
    worker text, max_documents bigint, lease bigint, now bigint, ticket bigint, INOUT has_turn boolean
) LANGUAGE plpgsql AS $$
DECLARE
    turn CONSTANT bigint := 'claim_lock'::regclass::oid::bigint;
BEGIN
    has_turn := pg_try_advisory_lock(turn);
    IF has_turn THEN
        RETURN;
    END IF;
    INSERT INTO claim_request AS request (pid, ticket, worker, max_documents, lease, now, asked_at)
    VALUES (pg_backend_pid(), ticket, worker, max_documents, lease, now, clock_timestamp())
    ON CONFLICT (pid) DO UPDATE SET
        ticket = excluded.ticket, worker = excluded.worker, max_documents = excluded.max_documents, lease = excluded.lease,
        now = excluded.now, asked_at = excluded.asked_at, answer = NULL;
    COMMIT;
    PERFORM pg_advisory_lock(turn);
    -- A claim that is alone takes no turn, and may be answering this one now: then the update waits for it, and finds the
    -- answer.
    UPDATE claim_request SET answer = '{}' WHERE pid = pg_backend_pid() AND answer IS NULL;
    has_turn := FOUND;
    IF NOT has_turn THEN
        PERFORM pg_advisory_unlock(turn);
    END IF;
END
$$;
