-- oldest: 23
-- The master keys of the database, in the order in which they came; see db/ring.go.
CREATE TABLE master_keys (
  number      INTEGER NOT NULL PRIMARY KEY,
  fingerprint TEXT NOT NULL UNIQUE,
  since       INTEGER NOT NULL,
  replaced    INTEGER NOT NULL DEFAULT 0, -- when the next one began to seal; 0: it seals
  rewrapped   INTEGER NOT NULL DEFAULT 0, -- when nothing was sealed under it any more
  ended       INTEGER NOT NULL DEFAULT 0, -- when it ceased to open the database
  next        BLOB NOT NULL, -- the next one, sealed under it; empty before that and since it ended
  self        BLOB NOT NULL -- itself, sealed under the next one
) STRICT, WITHOUT ROWID;
