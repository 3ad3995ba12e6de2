-- name: add_access_key
INSERT INTO access_key (id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: access_key
SELECT id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces FROM access_key WHERE id = :id;

-- name: access_keys
SELECT id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces FROM access_key ORDER BY made_at, id;

-- name: end_access_key
UPDATE access_key SET expires_at = min(:at, coalesce(expires_at, :at)) WHERE id = :id;

-- name: use_access_key
UPDATE access_key SET used_at = max(?2, coalesce(used_at, 0)) WHERE id = ?1;

-- name: purge_access_keys
DELETE FROM access_key WHERE customer = :customer;

-- name: last_event
SELECT event FROM queue;

-- name: events_by_hand
SELECT number, at, kind, customer, documents, operator, why, detail FROM event
WHERE operator IS NOT NULL AND number < :before ORDER BY number DESC LIMIT :limit;

-- name: events_by_hand_of
SELECT number, at, kind, customer, documents, operator, why, detail FROM event
WHERE operator IS NOT NULL AND customer = :customer AND number < :before ORDER BY number DESC LIMIT :limit;

-- name: kept_bytes
SELECT coalesce(sum(document.size), 0) FROM document JOIN customer ON customer.id = document.customer
WHERE customer.name = :customer;
