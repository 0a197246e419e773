-- An epoch begins when the database is restored from a backup: what came after that
-- backup is lost here, and may have happened. No row: it was never restored.
CREATE TABLE epochs (
  number     BIGINT NOT NULL PRIMARY KEY, -- seconds since 2026-01-01 UTC
  began      BIGINT NOT NULL,
  reconciled BIGINT NOT NULL DEFAULT 0 -- when a person had settled what is open; 0: not yet
);

-- The last number that each feed had before an epoch. In the epoch it goes on behind
-- number * 1000000, so that no number is given twice.
CREATE TABLE epoch_feeds (
  epoch    BIGINT NOT NULL,
  feed     TEXT NOT NULL,
  last_seq BIGINT NOT NULL,
  PRIMARY KEY (epoch, feed)
);

-- Deposits that the merchant had booked before a restore and that the restored book
-- does not know. If the service tells of one again, it waits for a person.
CREATE TABLE booked_before (
  tracking_id TEXT NOT NULL PRIMARY KEY
);
