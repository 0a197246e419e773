-- The merchant's tables. Times are milliseconds since 1970 UTC; 2^62 is never.

-- Every callback that was ever taken in, by its type and identifier. Nothing
-- here is deleted: forgetting one would let its deposit be credited twice.
CREATE TABLE inbox (
  seq            INTEGER NOT NULL PRIMARY KEY,
  type           INTEGER NOT NULL,
  id             TEXT NOT NULL,
  tenant_user_id TEXT NOT NULL,
  call_back_id   TEXT NOT NULL,
  content        BLOB NOT NULL, -- digest of what the effect rests on
  transfer       TEXT, -- digest of what moved to where, in part; NULL where nothing did
  tx_index       INTEGER NOT NULL,
  duplicate      INTEGER NOT NULL,
  claims         INTEGER NOT NULL,
  lease_until    INTEGER NOT NULL,
  settled        INTEGER NOT NULL,
  created        INTEGER NOT NULL,
  ended          INTEGER NOT NULL, -- when it was settled
  -- What the service was told, once settled.
  code           INTEGER NOT NULL DEFAULT 0,
  message        TEXT NOT NULL DEFAULT '',
  address        TEXT NOT NULL DEFAULT '',
  chain_name     TEXT NOT NULL DEFAULT '',
  symbol         TEXT NOT NULL DEFAULT '',
  amount         TEXT NOT NULL DEFAULT '',
  UNIQUE (id, type)
) STRICT;
CREATE INDEX inbox_transfer ON inbox (transfer, tx_index) WHERE transfer IS NOT NULL;
CREATE INDEX inbox_order ON inbox (call_back_id) WHERE call_back_id <> '';
CREATE INDEX inbox_open ON inbox (created) WHERE settled = 0;

-- First blocks and the digest of the body that each began.
CREATE TABLE first_blocks (
  first BLOB NOT NULL PRIMARY KEY,
  whole BLOB NOT NULL,
  seen  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX first_blocks_seen ON first_blocks (seen);

-- The deposits, numbered without gaps.
CREATE TABLE deposits (
  seq            INTEGER NOT NULL PRIMARY KEY,
  tracking_id    TEXT NOT NULL,
  tenant_user_id TEXT NOT NULL,
  tx_id          TEXT NOT NULL,
  chain_name     TEXT NOT NULL,
  symbol         TEXT NOT NULL,
  amount         TEXT NOT NULL,
  from_address   TEXT NOT NULL,
  to_address     TEXT NOT NULL,
  risk_from      INTEGER NOT NULL,
  risk_to        INTEGER NOT NULL,
  tx_index       INTEGER NOT NULL,
  business       INTEGER NOT NULL,
  state          TEXT NOT NULL, -- taken, held, credited, rejected
  taken          INTEGER NOT NULL,
  decided        INTEGER NOT NULL DEFAULT 0,
  decided_by     TEXT NOT NULL DEFAULT '',
  reason         TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX deposits_doubted ON deposits (state, seq) WHERE state <> 'taken';

-- What the merchant ordered. Tenant, details, end and labels never change.
CREATE TABLE orders (
  seq            INTEGER NOT NULL PRIMARY KEY,
  call_back_id   TEXT NOT NULL UNIQUE,
  tenant_user_id TEXT NOT NULL,
  address        TEXT NOT NULL,
  chain_name     TEXT NOT NULL,
  symbol         TEXT NOT NULL,
  amount         TEXT NOT NULL,
  labels         TEXT NOT NULL, -- JSON
  expires        INTEGER NOT NULL,
  state          TEXT NOT NULL, -- see OrderState
  reason         TEXT NOT NULL DEFAULT '', -- of the last change of state
  decided_by     TEXT NOT NULL DEFAULT '', -- who approved, declined or cancelled
  waiting        INTEGER NOT NULL DEFAULT 0, -- the type that says that the service is short of funds
  tx_id          TEXT NOT NULL DEFAULT '',
  created        INTEGER NOT NULL,
  updated        INTEGER NOT NULL,
  confirmed      INTEGER NOT NULL DEFAULT 0,
  ended          INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX orders_state ON orders (state, seq);
CREATE INDEX orders_user ON orders (tenant_user_id, seq);
CREATE INDEX orders_expires ON orders (expires) WHERE state IN ('open', 'held', 'approved') AND expires < 4611686018427387904;
CREATE INDEX orders_spent ON orders (symbol, confirmed) WHERE confirmed > 0;

-- Sums of the amounts of orders that were confirmed and did not end without
-- execution, by the span of time in which they were confirmed. An empty
-- tenant_user_id is all users together.
CREATE TABLE spent (
  symbol         TEXT NOT NULL,
  tenant_user_id TEXT NOT NULL,
  span           INTEGER NOT NULL, -- length: a minute, an hour or a day
  start          INTEGER NOT NULL,
  sum            TEXT NOT NULL,
  PRIMARY KEY (symbol, tenant_user_id, span, start)
) STRICT, WITHOUT ROWID;

-- What happened to orders, addresses and doubted deposits, numbered without gaps.
CREATE TABLE events (
  seq            INTEGER NOT NULL PRIMARY KEY,
  kind           TEXT NOT NULL,
  at             INTEGER NOT NULL,
  call_back_id   TEXT NOT NULL,
  deposit        INTEGER NOT NULL, -- seq of deposits, 0: none
  tenant_user_id TEXT NOT NULL,
  state          TEXT NOT NULL,
  address        TEXT NOT NULL,
  old_address    TEXT NOT NULL,
  chain_name     TEXT NOT NULL,
  symbol         TEXT NOT NULL,
  amount         TEXT NOT NULL,
  tx_id          TEXT NOT NULL,
  reason         TEXT NOT NULL,
  decided_by     TEXT NOT NULL
) STRICT;

-- How far a named reader has acknowledged each feed.
CREATE TABLE cursors (
  name     TEXT NOT NULL PRIMARY KEY,
  deposits INTEGER NOT NULL,
  events   INTEGER NOT NULL,
  updated  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What must still be told to the merchant's application. A row that is being
-- sent is due again when its lease ends; one that was told is deleted.
CREATE TABLE forwards (
  feed     INTEGER NOT NULL, -- 0 deposits, 1 events
  seq      INTEGER NOT NULL,
  due      INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  reason   TEXT NOT NULL DEFAULT '', -- of the last attempt that failed
  created  INTEGER NOT NULL,
  PRIMARY KEY (feed, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX forwards_due ON forwards (due, feed, seq);

INSERT INTO feeds (name, last_seq) VALUES ('inbox', 0), ('deposits', 0), ('events', 0);
