-- Callbacks that were accepted and purged (--retain): what a repetition needs, for ever.
-- The type is that of the service's rows; digest is the SHA-256 of the payload.
CREATE TABLE purged (
  merchant TEXT COLLATE "C" NOT NULL,
  event_id TEXT COLLATE "C" NOT NULL,
  type     SMALLINT NOT NULL,
  id       TEXT COLLATE "C" NOT NULL,
  digest   BYTEA NOT NULL,
  PRIMARY KEY (merchant, event_id, type)
);

-- How far the purge has come. Its one row is locked for each batch, so that one node works
-- at a time, and all share the pace.
CREATE TABLE retention (
  one      BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
  next     BIGINT NOT NULL DEFAULT 0, -- no batch begins before
  before   BIGINT NOT NULL DEFAULT 0, -- what was settled before this time may have been purged
  merchant TEXT NOT NULL DEFAULT '', -- the last callback that was looked at; empty: none of this walk
  id       TEXT NOT NULL DEFAULT '',
  walked   BIGINT NOT NULL DEFAULT 0, -- purged in this walk
  purged   BIGINT NOT NULL DEFAULT 0  -- ever
);
INSERT INTO retention (one) VALUES (1);
