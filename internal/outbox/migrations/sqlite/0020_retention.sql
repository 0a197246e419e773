-- Callbacks that were accepted and purged (--retain): what a repetition needs, for ever.
-- The type is that of the service's rows; digest is the SHA-256 of the payload.
CREATE TABLE purged (
  merchant TEXT NOT NULL,
  event_id TEXT NOT NULL,
  type     INTEGER NOT NULL,
  id       TEXT NOT NULL,
  digest   BLOB NOT NULL,
  PRIMARY KEY (merchant, event_id, type)
) STRICT, WITHOUT ROWID;

-- How far the purge has come. Its one row is locked for each batch, so that one node works
-- at a time, and all share the pace.
CREATE TABLE retention (
  one      INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  next     INTEGER NOT NULL DEFAULT 0, -- no batch begins before
  before   INTEGER NOT NULL DEFAULT 0, -- what was settled before this time may have been purged
  merchant TEXT NOT NULL DEFAULT '', -- the last callback that was looked at; empty: none of this walk
  id       TEXT NOT NULL DEFAULT '',
  walked   INTEGER NOT NULL DEFAULT 0, -- purged in this walk
  purged   INTEGER NOT NULL DEFAULT 0  -- ever
) STRICT;
INSERT INTO retention (one) VALUES (1);
