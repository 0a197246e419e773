-- How far the purge of deposits (--retain) has come. Its one row is locked for each batch, so
-- that one node works at a time, and all share the pace.
CREATE TABLE retention (
  one    BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
  next   BIGINT NOT NULL DEFAULT 0, -- no batch begins before
  before BIGINT NOT NULL DEFAULT 0, -- what was taken before this time may have been purged
  seq    BIGINT NOT NULL DEFAULT 0, -- the last deposit that was looked at; 0: none of this walk
  upto   BIGINT NOT NULL DEFAULT 0, -- the last deposit that was purged
  walked BIGINT NOT NULL DEFAULT 0, -- purged in this walk
  purged BIGINT NOT NULL DEFAULT 0  -- ever
);
INSERT INTO retention (one) VALUES (1);
