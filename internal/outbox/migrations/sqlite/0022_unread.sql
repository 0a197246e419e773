-- oldest: 21
-- The beginning of the last response to a callback that was not understood, sealed. id is
-- that of the callback as callers see it.
CREATE TABLE unread (
  id       TEXT NOT NULL PRIMARY KEY,
  number   INTEGER NOT NULL, -- of the attempt
  data_key BLOB NOT NULL,
  head     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
