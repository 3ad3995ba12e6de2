-- Queries of `stores/sql/search.py`: the index of words, and searches by it. OFFSET 0 keeps each chunk a look into the
-- index, whatever the statistics are.

-- name: searchable_seq
SELECT CASE WHEN pg_snapshot_xmin(pg_current_snapshot()) >= bound_xmax THEN bound ELSE -1 END FROM search_progress;

-- A bound_xmax that no transaction of this server has reached is that of another, from which a dump was restored.

-- name: may_move_search_bound
SELECT (bound < %(seq)s::bigint AND pg_snapshot_xmin(pg_current_snapshot()) >= bound_xmax)
    OR bound_xmax > pg_snapshot_xmax(pg_current_snapshot())
FROM search_progress;

-- name: move_search_bound
UPDATE search_progress SET bound = %(seq)s::bigint, bound_xmax = pg_snapshot_xmax(pg_current_snapshot())
WHERE (bound < %(seq)s::bigint AND pg_snapshot_xmin(pg_current_snapshot()) >= bound_xmax)
    OR bound_xmax > pg_snapshot_xmax(pg_current_snapshot());

-- name: unindexed_documents
SELECT seq, name, metadata, batch FROM document
WHERE seq >= %(first)s::bigint AND (%(owner)s::bigint IS NULL OR customer = %(owner)s::bigint)
ORDER BY seq DESC LIMIT %(limit)s;

-- name: term_places
SELECT chunks.chunk, places FROM (SELECT chunk FROM search_chunk ORDER BY chunk DESC) AS chunks
CROSS JOIN LATERAL (
    SELECT places FROM search_term
    WHERE search_term.chunk = chunks.chunk AND term >= %(low)s AND term < %(high)s
      AND (%(owner)s::bigint IS NULL OR customer = %(owner)s::bigint)
    OFFSET 0
) AS terms
LIMIT %(limit)s;

-- name: documents_by_seq
SELECT * FROM document_view WHERE seq = ANY (%(seq)s::bigint[]);

-- name: batches_by_seq
SELECT DISTINCT batch FROM document WHERE seq = ANY (%(seq)s::bigint[]);

-- name: documents_by_id_prefix
SELECT * FROM document_view
WHERE id BETWEEN %(low)s::uuid AND %(high)s::uuid AND (%(owner)s::bigint IS NULL OR owner = %(owner)s::bigint)
ORDER BY id DESC LIMIT %(limit)s;

-- name: customers_to_search
SELECT name, settings FROM customer
WHERE (%(name)s::text IS NULL OR name = %(name)s::text)
  AND (strpos(coalesce(lower_name, name), %(text)s) > 0 OR settings::jsonb ->> 'display_name' IS NOT NULL);

-- name: newest_failures
SELECT id, left(error, %(characters)s::int) FROM ended JOIN document ON document.seq = ended.seq
WHERE failed AND (%(owner)s::bigint IS NULL OR customer = %(owner)s::bigint)
ORDER BY ended.finished_at DESC, ended.seq DESC LIMIT %(limit)s;

-- name: stale_chunks
SELECT search_chunk.chunk FROM search_chunk LEFT JOIN (
    SELECT seq / %(size)s::bigint AS chunk, count(*) AS documents FROM document GROUP BY 1
) AS present ON present.chunk = search_chunk.chunk
WHERE coalesce(present.documents, 0) < search_chunk.documents ORDER BY 1 LIMIT %(limit)s;

-- name: add_terms
INSERT INTO search_term (chunk, term, customer, places)
SELECT %(chunk)s::bigint, * FROM unnest(%(term)s::text[], %(customer)s::bigint[], %(places)s::text[])
ON CONFLICT (chunk, term, customer) DO UPDATE SET places = excluded.places;

-- name: remove_terms
DELETE FROM search_term USING unnest(%(term)s::text[], %(customer)s::bigint[]) AS gone (term, customer)
WHERE chunk = %(chunk)s::bigint AND search_term.term = gone.term AND search_term.customer = gone.customer;
