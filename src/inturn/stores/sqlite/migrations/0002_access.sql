-- What servers need: access keys by id, with the hash of each, never its text; and an index of what was done by hand.

CREATE TABLE access_key (
    id TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    customer TEXT,
    made_at INTEGER NOT NULL,
    expires_at INTEGER,
    used_at INTEGER,
    replaces TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX event_by_hand ON event (number) WHERE operator IS NOT NULL;
