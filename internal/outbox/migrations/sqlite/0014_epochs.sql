-- An epoch begins when the database is restored from a backup: what came after that
-- backup is lost here, and may have happened. No row: it was never restored.
CREATE TABLE epochs (
  number     INTEGER NOT NULL PRIMARY KEY, -- seconds since 2026-01-01 UTC
  began      INTEGER NOT NULL,
  reconciled INTEGER NOT NULL DEFAULT 0 -- when a person had settled what is open; 0: not yet
) STRICT;

-- The last number that each feed had before an epoch. In the epoch it goes on behind
-- number * 1000000, so that no number is given twice.
CREATE TABLE epoch_feeds (
  epoch    INTEGER NOT NULL,
  feed     TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  PRIMARY KEY (epoch, feed)
) STRICT, WITHOUT ROWID;
