-- Queries of `stores/sql/search.py`: the index of words, and searches by it.

-- name: searchable_seq
SELECT seq FROM queue_state;

-- name: unindexed_documents
SELECT seq, name, metadata, batch FROM document
WHERE seq >= :first AND (:owner IS NULL OR customer = :owner) ORDER BY seq DESC LIMIT :limit;

-- name: term_places
SELECT search_chunk.chunk, places FROM search_chunk CROSS JOIN search_term ON search_term.chunk = search_chunk.chunk
WHERE term >= :low AND term < :high AND (:owner IS NULL OR customer = :owner)
ORDER BY search_chunk.chunk DESC LIMIT :limit;

-- name: documents_by_seq
SELECT * FROM document_view WHERE seq IN (SELECT value ->> 0 FROM json_each(:rows));

-- name: batches_by_seq
SELECT DISTINCT batch FROM document WHERE seq IN (SELECT value ->> 0 FROM json_each(:rows));

-- name: documents_by_id_prefix
SELECT * FROM document_view
WHERE id BETWEEN unhex(:low, '-') AND unhex(:high, '-') AND (:owner IS NULL OR owner = :owner) ORDER BY id DESC LIMIT :limit;

-- name: customers_to_search
SELECT name, settings FROM customer
WHERE (:name IS NULL OR name = :name)
  AND (instr(lower_case(name), :text) > 0 OR settings ->> 'display_name' IS NOT NULL);

-- name: newest_failures
SELECT id, substr(error, 1, :characters) FROM document INDEXED BY document_clock
WHERE state = 'failed' AND state <> 'waiting' AND (:owner IS NULL OR customer = :owner)
ORDER BY coalesce(due_at, finished_at) DESC, seq DESC LIMIT :limit;

-- name: stale_chunks
SELECT search_chunk.chunk FROM search_chunk LEFT JOIN (
    SELECT seq / :size AS chunk, count(*) AS documents FROM document INDEXED BY document_id GROUP BY 1
) AS present ON present.chunk = search_chunk.chunk
WHERE coalesce(present.documents, 0) < search_chunk.documents ORDER BY 1 LIMIT :limit;

-- name: add_terms
INSERT INTO search_term (chunk, term, customer, places) VALUES (:chunk, :term, :customer, :places)
ON CONFLICT (chunk, term, customer) DO UPDATE SET places = excluded.places;

-- name: remove_terms
DELETE FROM search_term WHERE chunk = :chunk AND term = :term AND customer = :customer;
