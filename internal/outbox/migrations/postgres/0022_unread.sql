-- oldest: 21
-- The beginning of the last response to a callback that was not understood, sealed. id is
-- that of the callback as callers see it.
CREATE TABLE unread (
  id       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  number   BIGINT NOT NULL, -- of the attempt
  data_key BYTEA NOT NULL,
  head     BYTEA NOT NULL
);
