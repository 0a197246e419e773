-- What every end keeps beside its own rows. Times are milliseconds since 1970 UTC.

-- Sealed values and whatever else there is one of.
CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) STRICT;

-- The last number given in each feed. Taken in the transaction that uses it,
-- so that numbers have no gaps and appear in order.
CREATE TABLE feeds (
  name     TEXT NOT NULL PRIMARY KEY,
  last_seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO feeds (name, last_seq) VALUES ('alarms', 0);

-- The merchant is empty here: there is one.
CREATE TABLE alarms (
  seq      INTEGER NOT NULL PRIMARY KEY,
  merchant TEXT NOT NULL,
  kind     TEXT NOT NULL,
  subject  TEXT NOT NULL,
  at       INTEGER NOT NULL
) STRICT;
CREATE INDEX alarms_same ON alarms (merchant, kind, subject, at);

CREATE TABLE tokens (
  id      TEXT NOT NULL PRIMARY KEY,
  name    TEXT NOT NULL,
  role    TEXT NOT NULL,
  hash    BLOB NOT NULL UNIQUE,
  created INTEGER NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0
) STRICT;
