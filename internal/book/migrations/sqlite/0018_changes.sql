-- Changes that wait for a second person, and those that did not have to. content is
-- sealed, what is needed to make the change; it is empty once the change is final.
CREATE TABLE changes (
  id          TEXT NOT NULL PRIMARY KEY, -- sorts by time
  kind        TEXT NOT NULL,
  merchant    TEXT NOT NULL, -- empty: of none
  version     INTEGER NOT NULL, -- of the merchant, before
  token       TEXT NOT NULL, -- that is made or revoked; empty: none
  bound       TEXT NOT NULL, -- merchants of that token
  state       TEXT NOT NULL,
  was         TEXT NOT NULL, -- JSON, for people
  becomes     TEXT NOT NULL,
  proposed_by TEXT NOT NULL,
  proposed    INTEGER NOT NULL,
  decided_by  TEXT NOT NULL DEFAULT '',
  decided     INTEGER NOT NULL DEFAULT 0,
  reason      TEXT NOT NULL DEFAULT '',
  due         INTEGER NOT NULL DEFAULT 0, -- when it takes effect
  data_key    BLOB NOT NULL,
  content     BLOB NOT NULL
) STRICT;
CREATE INDEX changes_state ON changes (state, id);
CREATE INDEX changes_of ON changes (merchant, id);
