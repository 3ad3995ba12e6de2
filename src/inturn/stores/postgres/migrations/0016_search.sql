-- An index of documents' words, metadata and batches (`inturn.search_query`), built beside the work: a submit does not
-- write it. A chunk is the documents of 2,048 successive seqs, indexed at once when all of them are there.
--
--   search_progress  one row: the first chunk that is not indexed yet, and the bound of what can be. Documents are not
--                    committed in the order of their seqs: those up to `bound` are all there or never will be, once every
--                    transaction before `bound_xmax` has ended. A submit locks its customer before it takes a seq, so
--                    that its transaction has an id by then
--   search_chunk     chunks that have documents: how many there were when it was indexed, and the first and last time
--                    of their submission
--   search_term      for each term of a chunk and customer the documents that have it: their seqs, counted from the
--                    chunk's first, with commas between them. Rows of documents that are gone or have another seq by now
--                    stay until the chunk is indexed again

CREATE TABLE search_progress (
    one int PRIMARY KEY CHECK (one = 1),
    next_chunk bigint NOT NULL,
    bound bigint NOT NULL,
    bound_xmax xid8 NOT NULL
);
INSERT INTO search_progress (one, next_chunk, bound, bound_xmax) VALUES (1, 0, -1, '0');

CREATE TABLE search_chunk (
    chunk bigint PRIMARY KEY,
    documents bigint NOT NULL,
    oldest bigint NOT NULL,
    newest bigint NOT NULL
);

CREATE TABLE search_term (
    chunk bigint NOT NULL,
    term text COLLATE "C" NOT NULL,
    customer bigint NOT NULL,
    places text COLLATE "C" NOT NULL,
    PRIMARY KEY (chunk, term, customer)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000
);
