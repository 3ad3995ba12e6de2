-- What servers need: access keys by id, with the hash of each, never its text; and an index of what was done by hand.

CREATE TABLE access_key (
    id text COLLATE "C" PRIMARY KEY,
    sha256 text NOT NULL,
    scope text NOT NULL,
    name text NOT NULL,
    customer text,
    made_at bigint NOT NULL,
    expires_at bigint,
    used_at bigint,
    replaces text
) WITH (fillfactor = 70);

CREATE INDEX event_by_hand ON event (number) WHERE operator IS NOT NULL;
