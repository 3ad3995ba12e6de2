-- name: add_access_key
INSERT INTO access_key (id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces) VALUES (
    %(id)s, %(sha256)s, %(scope)s, %(name)s, %(customer)s, %(made_at)s, %(expires_at)s, %(used_at)s, %(replaces)s
);

-- name: access_key
SELECT id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces FROM access_key WHERE id = %(id)s;

-- name: access_keys
SELECT id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces FROM access_key ORDER BY made_at, id;

-- name: end_access_key
UPDATE access_key SET expires_at = least(%(at)s::bigint, expires_at) WHERE id = %(id)s;

-- name: use_access_keys
UPDATE access_key SET used_at = greatest(used.at, used_at)
FROM (SELECT id, at FROM unnest(%(ids)s::text[], %(times)s::bigint[]) AS each (id, at) ORDER BY id) AS used
WHERE access_key.id = used.id;

-- name: purge_access_keys
DELETE FROM access_key WHERE customer = %(customer)s;

-- name: last_event
SELECT last FROM numbering;

-- name: events_by_hand
SELECT number, at, kind, customer, documents, operator, why, detail FROM event
WHERE operator IS NOT NULL AND number < %(before)s ORDER BY number DESC LIMIT %(limit)s;

-- name: events_by_hand_of
SELECT number, at, kind, customer, documents, operator, why, detail FROM event
WHERE operator IS NOT NULL AND customer = %(customer)s AND number < %(before)s ORDER BY number DESC LIMIT %(limit)s;

-- name: kept_bytes
SELECT coalesce(sum(document.size), 0)::bigint FROM document JOIN customer ON customer.id = document.customer
WHERE customer.name = %(customer)s;
