-- What is due: start_by, leases, delays, rates; and leases, delays and rates that a clock ahead of the server's has set.
-- %(floor)s is a time below which nothing of the kind is left, so that dead rows at the low end of an index are not read.
-- `running.lease_check_at` may be earlier than the lease's end: heartbeats do not move it,
-- `next_lease_check` does, for those that it finds before the end of the lease.

-- name: deadlines
SELECT
    (SELECT min(lease_until) FROM running JOIN document ON document.seq = running.seq),
    (SELECT due_at FROM document WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1),
    (SELECT min(rate_closed_until) FROM limits WHERE rate_closed_until IS NOT NULL);

-- name: late_to_start
SELECT
    id, seq, customer, state, level, lane, attempt, max_attempts, fence, last_outcome, cost, start_by, started_at, worker,
    charged, lease_until, step, queue, ready_at, parent, count
FROM document
WHERE start_by BETWEEN %(floor)s AND %(now)s AND attempt = 0 AND state IN ('waiting', 'delayed')
ORDER BY start_by, seq LIMIT %(limit)s;

-- name: next_start_by
SELECT start_by FROM document WHERE start_by > %(now)s ORDER BY start_by LIMIT 1;

-- name: expired_leases
SELECT
    id, document.seq, document.customer, state, level, lane, attempt, max_attempts, fence, last_outcome, cost, start_by,
    started_at, worker, charged, lease_until, step, queue, ready_at, parent, count
FROM running JOIN document ON document.seq = running.seq
WHERE running.lease_check_at BETWEEN %(floor)s AND %(now)s AND lease_until <= %(now)s
ORDER BY lease_until, document.seq LIMIT %(limit)s;

-- name: next_lease_check
WITH postponed AS (
    UPDATE document SET lease_check_at = lease_until FROM running
    WHERE running.lease_check_at BETWEEN %(floor)s AND %(now)s AND document.seq = running.seq AND lease_until > %(now)s
    RETURNING running.lease_check_at AS old_check_at, document.seq, document.lease_check_at
), moved AS (
    UPDATE running SET lease_check_at = postponed.lease_check_at FROM postponed
    WHERE running.lease_check_at = postponed.old_check_at AND running.seq = postponed.seq
)
SELECT least(
    (SELECT lease_check_at FROM running WHERE lease_check_at > %(now)s ORDER BY lease_check_at LIMIT 1),
    (SELECT min(lease_check_at) FROM postponed)
);

-- name: due_documents
SELECT
    id, seq, customer, state, level, lane, attempt, max_attempts, fence, last_outcome, cost, start_by, started_at, worker,
    charged, lease_until, step, queue, ready_at, parent, count
FROM document
WHERE due_at BETWEEN %(floor)s AND %(now)s ORDER BY due_at, seq LIMIT %(limit)s;

-- name: next_due
SELECT due_at FROM document WHERE due_at > %(now)s ORDER BY due_at LIMIT 1;

-- name: next_rate
SELECT rate_closed_until FROM limits
WHERE rate_closed_until IS NOT NULL AND rate_closed_until > %(now)s ORDER BY rate_closed_until LIMIT 1;

-- name: leases_ahead
SELECT * FROM (
    SELECT seq, leased_at, lease_until, doubted_at FROM document
    WHERE seq = ANY (ARRAY(SELECT seq FROM running)) AND leased_at > %(now)s OFFSET 0
) AS ahead
ORDER BY seq;

-- name: delays_ahead
SELECT * FROM (
    SELECT seq, delayed_at, due_at, doubted_at FROM document WHERE due_at IS NOT NULL AND delayed_at > %(now)s OFFSET 0
) AS ahead
ORDER BY seq;

-- name: set_lease_term
WITH old AS (
    SELECT seq, lease_check_at FROM document WHERE seq = %(seq)s
), changed AS (
    UPDATE document SET
        lease_until = %(ends_at)s, lease_check_at = least(document.lease_check_at, %(ends_at)s), doubted_at = %(doubted_at)s
    FROM old WHERE document.seq = old.seq
    RETURNING document.seq, old.lease_check_at AS old_check_at, document.lease_check_at
)
UPDATE running SET lease_check_at = changed.lease_check_at FROM changed
WHERE running.lease_check_at = changed.old_check_at AND running.seq = changed.seq;
