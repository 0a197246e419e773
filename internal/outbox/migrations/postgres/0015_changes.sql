-- Changes that wait for a second person, and those that did not have to. content is
-- sealed, what is needed to make the change; it is empty once the change is final.
CREATE TABLE changes (
  id          TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- sorts by time
  kind        TEXT NOT NULL,
  merchant    TEXT COLLATE "C" NOT NULL, -- empty: of none
  version     BIGINT NOT NULL, -- of the merchant, before
  token       TEXT NOT NULL, -- that is made or revoked; empty: none
  bound       TEXT NOT NULL, -- merchants of that token
  state       TEXT NOT NULL,
  was         TEXT NOT NULL, -- JSON, for people
  becomes     TEXT NOT NULL,
  proposed_by TEXT NOT NULL,
  proposed    BIGINT NOT NULL,
  decided_by  TEXT NOT NULL DEFAULT '',
  decided     BIGINT NOT NULL DEFAULT 0,
  reason      TEXT NOT NULL DEFAULT '',
  due         BIGINT NOT NULL DEFAULT 0, -- when it takes effect
  data_key    BYTEA NOT NULL,
  content     BYTEA NOT NULL
);
CREATE INDEX changes_state ON changes (state, id);
CREATE INDEX changes_of ON changes (merchant, id);
