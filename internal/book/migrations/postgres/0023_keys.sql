-- oldest: 23
-- The master keys of the database, in the order in which they came; see db/ring.go.
CREATE TABLE master_keys (
  number      BIGINT NOT NULL PRIMARY KEY,
  fingerprint TEXT NOT NULL UNIQUE,
  since       BIGINT NOT NULL,
  replaced    BIGINT NOT NULL DEFAULT 0, -- when the next one began to seal; 0: it seals
  rewrapped   BIGINT NOT NULL DEFAULT 0, -- when nothing was sealed under it any more
  ended       BIGINT NOT NULL DEFAULT 0, -- when it ceased to open the database
  next        BYTEA NOT NULL, -- the next one, sealed under it; empty before that and since it ended
  self        BYTEA NOT NULL -- itself, sealed under the next one
);
