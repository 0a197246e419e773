-- How far the purge of deposits (--retain) has come. Its one row is locked for each batch, so
-- that one node works at a time, and all share the pace.
CREATE TABLE retention (
  one    INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  next   INTEGER NOT NULL DEFAULT 0, -- no batch begins before
  before INTEGER NOT NULL DEFAULT 0, -- what was taken before this time may have been purged
  seq    INTEGER NOT NULL DEFAULT 0, -- the last deposit that was looked at; 0: none of this walk
  upto   INTEGER NOT NULL DEFAULT 0, -- the last deposit that was purged
  walked INTEGER NOT NULL DEFAULT 0, -- purged in this walk
  purged INTEGER NOT NULL DEFAULT 0  -- ever
) STRICT;
INSERT INTO retention (one) VALUES (1);
