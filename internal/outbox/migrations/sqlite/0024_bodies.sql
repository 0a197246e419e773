-- oldest: 23
-- What stays of a record of the audit log whose body was purged (--retain-audit). A program
-- that does not know this table is refused from the first purge on.
CREATE TABLE audit_purged (
  seq    INTEGER NOT NULL PRIMARY KEY,
  hashes BLOB NOT NULL -- as in audit_records
) STRICT;

-- All records. The body of one that was purged is empty.
CREATE VIEW audit_log AS
  SELECT seq, body, hashes, leaves FROM audit_records
  UNION ALL SELECT seq, x'', hashes, x'' FROM audit_purged;

-- Records that the purge has passed because what they tell of was not at its end.
CREATE TABLE audit_open (
  seq INTEGER NOT NULL PRIMARY KEY
) STRICT;

-- How far the purge of bodies has come. Its one row is locked for each batch, so that one
-- node works at a time, and all share the pace.
CREATE TABLE audit_retention (
  one    INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  next   INTEGER NOT NULL DEFAULT 0, -- no batch begins before
  before INTEGER NOT NULL DEFAULT 0, -- what was added before this time may have been purged
  seq    INTEGER NOT NULL DEFAULT 0, -- the last record that was looked at; 0: none of this walk
  upto   INTEGER NOT NULL DEFAULT 0, -- the last record of this walk
  done   INTEGER NOT NULL DEFAULT 0, -- what comes later was never looked at
  walked INTEGER NOT NULL DEFAULT 0, -- purged in this walk
  purged INTEGER NOT NULL DEFAULT 0, -- ever
  exported INTEGER NOT NULL DEFAULT 0 -- nothing later is purged; 0: nobody acknowledges exports
) STRICT;
INSERT INTO audit_retention (one) VALUES (1);

CREATE INDEX audit_checkpoints_at ON audit_checkpoints (at);

-- Whether a node knows records without a body. Earlier releases do not set it.
ALTER TABLE nodes ADD COLUMN bodiless INTEGER NOT NULL DEFAULT 0;
