-- Queries for servers: API keys, events by operators, and the bytes that a customer's documents take up.

-- name: add_api_key
INSERT INTO api_key (id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces)
VALUES (:id, :sha256, :scope, :name, :customer, :made_at, :expires_at, :used_at, :replaces);

-- name: revoke_api_key
UPDATE api_key SET expires_at = min(:at, coalesce(expires_at, :at)) WHERE id = :id;

-- name: record_api_key_uses
UPDATE api_key SET used_at = max(:at, coalesce(used_at, 0)) WHERE id = :id;

-- name: last_event
SELECT event FROM queue_state;

-- name: stored_bytes
SELECT coalesce(sum(document.size), 0) FROM document JOIN customer ON customer.id = document.customer
WHERE customer.name = :customer;
