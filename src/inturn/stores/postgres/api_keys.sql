-- Queries for servers: API keys, events by operators, and the bytes that a customer's documents take up.

-- name: add_api_key
INSERT INTO api_key (id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces) VALUES (
    %(id)s, %(sha256)s, %(scope)s, %(name)s, %(customer)s, %(made_at)s, %(expires_at)s, %(used_at)s, %(replaces)s
);

-- name: api_key
SELECT id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces FROM api_key WHERE id = %(id)s;

-- name: api_keys
SELECT id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces FROM api_key ORDER BY made_at, id;

-- name: revoke_api_key
UPDATE api_key SET expires_at = least(%(at)s::bigint, expires_at) WHERE id = %(id)s;

-- name: record_api_key_uses
UPDATE api_key SET used_at = greatest(used.at, used_at)
FROM (SELECT id, at FROM unnest(%(id)s::text[], %(at)s::bigint[]) AS item (id, at) ORDER BY id) AS used
WHERE api_key.id = used.id;

-- name: purge_api_keys
DELETE FROM api_key WHERE customer = %(customer)s;

-- name: last_event
SELECT last FROM event_sequence;

-- name: operator_events
SELECT number, at, kind, customer, documents, operator, why, detail FROM event
WHERE operator IS NOT NULL AND number < %(before)s ORDER BY number DESC LIMIT %(limit)s;

-- name: operator_events_of
SELECT number, at, kind, customer, documents, operator, why, detail FROM event
WHERE operator IS NOT NULL AND customer = %(customer)s AND number < %(before)s ORDER BY number DESC LIMIT %(limit)s;

-- name: stored_bytes
SELECT coalesce(sum(document.size), 0)::bigint FROM document JOIN customer ON customer.id = document.customer
WHERE customer.name = %(customer)s;
