-- The merchant's tables. Times are milliseconds since 1970 UTC; 2^62 is never.

-- Every callback that was ever taken in, by its type and identifier. Nothing
-- here is deleted: forgetting one would let its deposit be credited twice.
CREATE TABLE inbox (
  seq            BIGINT NOT NULL PRIMARY KEY,
  type           BIGINT NOT NULL,
  id             TEXT COLLATE "C" NOT NULL,
  tenant_user_id TEXT COLLATE "C" NOT NULL,
  call_back_id   TEXT COLLATE "C" NOT NULL,
  content        BYTEA NOT NULL, -- digest of what the effect rests on
  transfer       TEXT COLLATE "C", -- digest of what moved to where, in part; NULL where nothing did
  tx_index       BIGINT NOT NULL,
  duplicate      BIGINT NOT NULL,
  claims         BIGINT NOT NULL,
  lease_until    BIGINT NOT NULL,
  settled        BIGINT NOT NULL,
  created        BIGINT NOT NULL,
  ended          BIGINT NOT NULL, -- when it was settled
  -- What the service was told, once settled.
  code           BIGINT NOT NULL DEFAULT 0,
  message        TEXT COLLATE "C" NOT NULL DEFAULT '',
  address        TEXT COLLATE "C" NOT NULL DEFAULT '',
  chain_name     TEXT COLLATE "C" NOT NULL DEFAULT '',
  symbol         TEXT COLLATE "C" NOT NULL DEFAULT '',
  amount         TEXT COLLATE "C" NOT NULL DEFAULT '',
  UNIQUE (id, type)
);
CREATE INDEX inbox_transfer ON inbox (transfer, tx_index) WHERE transfer IS NOT NULL;
CREATE INDEX inbox_order ON inbox (call_back_id) WHERE call_back_id <> '';
CREATE INDEX inbox_open ON inbox (created) WHERE settled = 0;

-- First blocks and the digest of the body that each began.
CREATE TABLE first_blocks (
  first BYTEA NOT NULL PRIMARY KEY,
  whole BYTEA NOT NULL,
  seen  BIGINT NOT NULL
);
CREATE INDEX first_blocks_seen ON first_blocks (seen);

-- The deposits, numbered without gaps.
CREATE TABLE deposits (
  seq            BIGINT NOT NULL PRIMARY KEY,
  tracking_id    TEXT COLLATE "C" NOT NULL,
  tenant_user_id TEXT COLLATE "C" NOT NULL,
  tx_id          TEXT COLLATE "C" NOT NULL,
  chain_name     TEXT COLLATE "C" NOT NULL,
  symbol         TEXT COLLATE "C" NOT NULL,
  amount         TEXT COLLATE "C" NOT NULL,
  from_address   TEXT COLLATE "C" NOT NULL,
  to_address     TEXT COLLATE "C" NOT NULL,
  risk_from      BIGINT NOT NULL,
  risk_to        BIGINT NOT NULL,
  tx_index       BIGINT NOT NULL,
  business       BIGINT NOT NULL,
  state          TEXT COLLATE "C" NOT NULL, -- taken, held, credited, rejected
  taken          BIGINT NOT NULL,
  decided        BIGINT NOT NULL DEFAULT 0,
  decided_by     TEXT COLLATE "C" NOT NULL DEFAULT '',
  reason         TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX deposits_doubted ON deposits (state, seq) WHERE state <> 'taken';

-- What the merchant ordered. Tenant, details, end and labels never change.
CREATE TABLE orders (
  seq            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  call_back_id   TEXT COLLATE "C" NOT NULL UNIQUE,
  tenant_user_id TEXT COLLATE "C" NOT NULL,
  address        TEXT COLLATE "C" NOT NULL,
  chain_name     TEXT COLLATE "C" NOT NULL,
  symbol         TEXT COLLATE "C" NOT NULL,
  amount         TEXT COLLATE "C" NOT NULL,
  labels         TEXT COLLATE "C" NOT NULL, -- JSON
  expires        BIGINT NOT NULL,
  state          TEXT COLLATE "C" NOT NULL, -- see OrderState
  reason         TEXT COLLATE "C" NOT NULL DEFAULT '', -- of the last change of state
  decided_by     TEXT COLLATE "C" NOT NULL DEFAULT '', -- who approved, declined or cancelled
  waiting        BIGINT NOT NULL DEFAULT 0, -- the type that says that the service is short of funds
  tx_id          TEXT COLLATE "C" NOT NULL DEFAULT '',
  created        BIGINT NOT NULL,
  updated        BIGINT NOT NULL,
  confirmed      BIGINT NOT NULL DEFAULT 0,
  ended          BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX orders_state ON orders (state, seq);
CREATE INDEX orders_user ON orders (tenant_user_id, seq);
CREATE INDEX orders_expires ON orders (expires) WHERE state IN ('open', 'held', 'approved') AND expires < 4611686018427387904;
CREATE INDEX orders_spent ON orders (symbol, confirmed) WHERE confirmed > 0;

-- Sums of the amounts of orders that were confirmed and did not end without
-- execution, by the span of time in which they were confirmed. An empty
-- tenant_user_id is all users together.
CREATE TABLE spent (
  symbol         TEXT COLLATE "C" NOT NULL,
  tenant_user_id TEXT COLLATE "C" NOT NULL,
  span           BIGINT NOT NULL, -- length: a minute, an hour or a day
  start          BIGINT NOT NULL,
  sum            TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (symbol, tenant_user_id, span, start)
);

-- What happened to orders, addresses and doubted deposits, numbered without gaps.
CREATE TABLE events (
  seq            BIGINT NOT NULL PRIMARY KEY,
  kind           TEXT COLLATE "C" NOT NULL,
  at             BIGINT NOT NULL,
  call_back_id   TEXT COLLATE "C" NOT NULL,
  deposit        BIGINT NOT NULL, -- seq of deposits, 0: none
  tenant_user_id TEXT COLLATE "C" NOT NULL,
  state          TEXT COLLATE "C" NOT NULL,
  address        TEXT COLLATE "C" NOT NULL,
  old_address    TEXT COLLATE "C" NOT NULL,
  chain_name     TEXT COLLATE "C" NOT NULL,
  symbol         TEXT COLLATE "C" NOT NULL,
  amount         TEXT COLLATE "C" NOT NULL,
  tx_id          TEXT COLLATE "C" NOT NULL,
  reason         TEXT COLLATE "C" NOT NULL,
  decided_by     TEXT COLLATE "C" NOT NULL
);

-- How far a named reader has acknowledged each feed.
CREATE TABLE cursors (
  name     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  deposits BIGINT NOT NULL,
  events   BIGINT NOT NULL,
  updated  BIGINT NOT NULL
);

-- What must still be told to the merchant's application. A row that is being
-- sent is due again when its lease ends; one that was told is deleted.
CREATE TABLE forwards (
  feed     BIGINT NOT NULL, -- 0 deposits, 1 events
  seq      BIGINT NOT NULL,
  due      BIGINT NOT NULL,
  attempts BIGINT NOT NULL DEFAULT 0,
  reason   TEXT COLLATE "C" NOT NULL DEFAULT '', -- of the last attempt that failed
  created  BIGINT NOT NULL,
  PRIMARY KEY (feed, seq)
);
CREATE INDEX forwards_due ON forwards (due, feed, seq);

INSERT INTO feeds (name, last_seq) VALUES ('inbox', 0), ('deposits', 0), ('events', 0);
