-- The processes that use this database. Each writes its row every few seconds, and
-- deletes it when it stops.
CREATE TABLE nodes (
  id      TEXT NOT NULL PRIMARY KEY, -- random, of one run
  name    TEXT NOT NULL,
  version TEXT NOT NULL,
  started BIGINT NOT NULL,
  seen    BIGINT NOT NULL -- when it last wrote the row
);
