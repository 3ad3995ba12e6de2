-- An index of documents' words, metadata and batches (`inturn.search_query`), built beside the work: a submit does not
-- write it. A chunk is the documents of 2,048 successive seqs, indexed at once when all of them are there.
--
--   search_progress  one row: the first chunk that is not indexed yet
--   search_chunk     chunks that have documents: how many there were when it was indexed, and the first and last time
--                    of their submission
--   search_term      for each term of a chunk and customer the documents that have it: their seqs, counted from the
--                    chunk's first, with commas between them. Rows of documents that are gone or have another seq by now
--                    stay until the chunk is indexed again

CREATE TABLE search_progress (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    next_chunk INTEGER NOT NULL
) STRICT;
INSERT INTO search_progress (one, next_chunk) VALUES (1, 0);

CREATE TABLE search_chunk (
    chunk INTEGER PRIMARY KEY,
    documents INTEGER NOT NULL,
    oldest INTEGER NOT NULL,
    newest INTEGER NOT NULL
) STRICT;

CREATE TABLE search_term (
    chunk INTEGER NOT NULL,
    term TEXT NOT NULL,
    customer INTEGER NOT NULL,
    places TEXT NOT NULL,
    PRIMARY KEY (chunk, term, customer)
) STRICT, WITHOUT ROWID;
