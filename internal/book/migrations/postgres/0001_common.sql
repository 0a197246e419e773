-- What every end keeps beside its own rows. Times are milliseconds since 1970 UTC.

-- Sealed values and whatever else there is one of.
CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value BYTEA NOT NULL
);

-- The last number given in each feed. Taken in the transaction that uses it,
-- so that numbers have no gaps and appear in order.
CREATE TABLE feeds (
  name     TEXT NOT NULL PRIMARY KEY,
  last_seq BIGINT NOT NULL
);
INSERT INTO feeds (name, last_seq) VALUES ('alarms', 0);

-- The merchant is empty here: there is one.
CREATE TABLE alarms (
  seq      BIGINT NOT NULL PRIMARY KEY,
  merchant TEXT COLLATE "C" NOT NULL,
  kind     TEXT NOT NULL,
  subject  TEXT NOT NULL,
  at       BIGINT NOT NULL
);
CREATE INDEX alarms_same ON alarms (merchant, kind, subject, at);

CREATE TABLE tokens (
  id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  name    TEXT NOT NULL,
  role    TEXT NOT NULL,
  hash    BYTEA NOT NULL UNIQUE,
  created BIGINT NOT NULL,
  revoked BIGINT NOT NULL DEFAULT 0
);
