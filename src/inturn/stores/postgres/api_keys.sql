-- Queries for servers: API keys, events by operators, and the bytes that a customer's documents take up.

-- name: add_api_key
INSERT INTO api_key (id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces) VALUES (
    %(id)s, %(sha256)s, %(scope)s, %(name)s, %(customer)s, %(made_at)s, %(expires_at)s, %(used_at)s, %(replaces)s
);

-- name: revoke_api_key
UPDATE api_key SET expires_at = least(%(at)s::bigint, expires_at) WHERE id = %(id)s;

-- name: record_api_key_uses
UPDATE api_key SET used_at = greatest(used.at, used_at)
FROM (SELECT id, at FROM unnest(%(id)s::text[], %(at)s::bigint[]) AS item (id, at) ORDER BY id) AS used
WHERE api_key.id = used.id;

-- name: last_event
SELECT last FROM event_sequence;

-- name: stored_bytes
SELECT coalesce(sum(document.size), 0)::bigint FROM document JOIN customer ON customer.id = document.customer
WHERE customer.name = %(customer)s;
