-- The history: events folded into rows of a minute or an hour, and the cursor that says which events are part of it. What
-- reads documents is in the dialects' own history.sql.

-- name: history_cursor
SELECT event, began_at, until, next_at FROM history_cursor;

-- name: begin_history
INSERT INTO history_cursor (one, event, began_at, until, next_at) VALUES (1, 0, NULL, 0, 0) ON CONFLICT (one) DO NOTHING;

-- name: move_history_cursor
UPDATE history_cursor SET event = :event, began_at = :began_at, until = :until, next_at = :next_at WHERE event = :folded;

-- name: history_span
SELECT scope, key, figures FROM history WHERE span = :span AND at = :at;

-- name: history_of
SELECT at, key, figures FROM history
WHERE span = :span AND at >= :since AND at < :until AND scope = :scope ORDER BY at, key;

-- name: history_of_key
SELECT at, key, figures FROM history
WHERE span = :span AND at >= :since AND at < :until AND scope = :scope AND key = :key ORDER BY at;

-- name: forget_old_history
DELETE FROM history WHERE span = :span AND at < :before;

-- name: newest_operator_event
SELECT number, at, kind, customer, documents, operator, why, detail, queue FROM event
WHERE operator IS NOT NULL AND kind = :kind ORDER BY number DESC LIMIT 1;

-- name: sampled_tracks
SELECT level, sum(n) FROM (
    SELECT level, waiting AS n FROM lane WHERE waiting > 0
    UNION ALL
    SELECT level - 1000 * (level / 1000), n FROM lane_log WHERE level IS NOT NULL
) AS lengths
GROUP BY level HAVING sum(n) > 0;

-- name: sampled_customers
SELECT customer.name, busiest.n FROM (
    SELECT customer, sum(n) AS n FROM (
        SELECT customer, waiting AS n FROM lane WHERE waiting > 0
        UNION ALL
        SELECT customer, n FROM lane_log WHERE level IS NOT NULL
    ) AS lengths
    GROUP BY customer HAVING sum(n) > 0 ORDER BY sum(n) DESC, customer LIMIT :limit
) AS busiest JOIN customer ON customer.id = busiest.customer;
