-- The service's tables. Every key leads with the merchant, so that the tables
-- can be divided by merchant. Times are milliseconds since 1970 UTC; 2^62 is
-- never. Ids are the 26 characters after "<merchant>.".

-- Sealed values and whatever else there is one of.
CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) STRICT;

CREATE TABLE merchants (
  id                   TEXT NOT NULL PRIMARY KEY,
  name                 TEXT NOT NULL,
  state                TEXT NOT NULL,
  paused_reason        TEXT NOT NULL,
  notify_url           TEXT NOT NULL,
  withdraw_url         TEXT NOT NULL,
  scheme               TEXT NOT NULL,
  settings             TEXT NOT NULL, -- JSON
  concurrency          INTEGER NOT NULL,
  rate                 REAL NOT NULL, -- callbacks a second, 0: no limit
  confirm_within       INTEGER NOT NULL, -- nanoseconds
  version              INTEGER NOT NULL,
  created              INTEGER NOT NULL,
  updated              INTEGER NOT NULL,
  fingerprint          TEXT NOT NULL,
  response_fingerprint TEXT NOT NULL,
  -- Secrets: sealed under the data key, that under the master key.
  secret_version       INTEGER NOT NULL,
  data_key             BLOB NOT NULL,
  api_key              BLOB NOT NULL,
  callback_api_key     BLOB NOT NULL,
  request_key          BLOB NOT NULL,
  response_key         BLOB NOT NULL
) STRICT;

-- What limits the sending to one merchant in one lane. The row is the counter
-- that all nodes share.
CREATE TABLE lanes (
  merchant    TEXT NOT NULL REFERENCES merchants (id),
  lane        INTEGER NOT NULL,
  -- Copies of the merchant's.
  active      INTEGER NOT NULL,
  concurrency INTEGER NOT NULL,
  rate        REAL NOT NULL,
  version     INTEGER NOT NULL,
  -- Claims and settlements change these.
  in_flight   INTEGER NOT NULL DEFAULT 0, -- rows of outbox that are sending
  next_due    INTEGER NOT NULL DEFAULT 4611686018427387904, -- of rows that are pending
  served      INTEGER NOT NULL DEFAULT 0, -- last claim: who waits longest comes first
  failures    INTEGER NOT NULL DEFAULT 0, -- exchanges in a row that reached nobody
  open_until  INTEGER NOT NULL DEFAULT 0, -- breaker
  bucket      REAL NOT NULL DEFAULT 0, -- when the rate's bucket was or will be empty
  rate_ready  INTEGER NOT NULL DEFAULT 0, -- when it holds one more
  -- Callbacks in final states.
  accepted    INTEGER NOT NULL DEFAULT 0,
  refused     INTEGER NOT NULL DEFAULT 0,
  exhausted   INTEGER NOT NULL DEFAULT 0,
  cancelled   INTEGER NOT NULL DEFAULT 0,
  -- When a claim can next find something here. 5 is BreakerThreshold: behind a
  -- breaker that was open, one exchange at a time.
  ready       INTEGER NOT NULL GENERATED ALWAYS AS (
    CASE WHEN active = 0 OR in_flight >= CASE WHEN failures >= 5 THEN 1 ELSE concurrency END
      THEN 4611686018427387904
      ELSE max(next_due, served, open_until, rate_ready) END) STORED,
  PRIMARY KEY (merchant, lane)
) STRICT, WITHOUT ROWID;
-- Those in which nothing waits are left out; and so is this index where lanes are
-- looked up, in PostgreSQL's plans of a small table.
CREATE INDEX lanes_ready ON lanes (lane, ready, merchant) WHERE ready < 4611686018427387904;

-- What the service says. Rows never change: what does is in outbox, so that the
-- many that are settled cost claims and settlements nothing. A callback without
-- a row there is accepted, by the attempt that says so.
CREATE TABLE callbacks (
  merchant     TEXT NOT NULL,
  id           TEXT NOT NULL,
  type         INTEGER NOT NULL,
  event_id     TEXT NOT NULL,
  tracking_id  TEXT NOT NULL,
  tx_id        TEXT NOT NULL,
  call_back_id TEXT NOT NULL,
  payload      BLOB NOT NULL,
  deadline     INTEGER NOT NULL,
  created      INTEGER NOT NULL,
  PRIMARY KEY (merchant, id),
  UNIQUE (merchant, event_id, type)
) STRICT;
CREATE INDEX callbacks_recent ON callbacks (id, merchant);
CREATE INDEX callbacks_type ON callbacks (type, id, merchant) WHERE type <> 1;
CREATE INDEX callbacks_tracking ON callbacks (merchant, tracking_id) WHERE type <> 1; -- type 1: event_id
CREATE INDEX callbacks_tx ON callbacks (merchant, tx_id) WHERE tx_id <> '';
CREATE INDEX callbacks_order ON callbacks (merchant, call_back_id) WHERE call_back_id <> '';

-- Callbacks that are not accepted: waiting, sending, or ended otherwise.
CREATE TABLE outbox (
  merchant    TEXT NOT NULL,
  id          TEXT NOT NULL,
  lane        INTEGER NOT NULL,
  state       TEXT NOT NULL, -- pending, sending, refused, exhausted, cancelled
  due         INTEGER NOT NULL,
  lease_until INTEGER NOT NULL DEFAULT 0,
  attempts    INTEGER NOT NULL DEFAULT 0, -- started; the current one's number while sending
  failed      INTEGER NOT NULL DEFAULT 0, -- that count against the schedule
  deadline    INTEGER NOT NULL,
  node        TEXT NOT NULL DEFAULT '', -- who claimed it
  claimed     INTEGER NOT NULL DEFAULT 0,
  last_reason TEXT NOT NULL DEFAULT '',
  settled     INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (merchant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_due ON outbox (merchant, lane, due, id) WHERE state = 'pending';
-- Not "state = 'sending'": while outbox is small, PostgreSQL would take this index
-- for every statement that has that as its guard, and keep to that plan.
CREATE INDEX outbox_lease ON outbox (lease_until) WHERE lease_until > 0;
-- Not "lane = 0": SQLite would compare that with the parameter of every
-- "lane = $n" and prepare those statements again for each value.
CREATE INDEX outbox_deadline ON outbox (deadline) WHERE state = 'pending' AND lane <> 1 AND deadline < 4611686018427387904;
CREATE INDEX outbox_ended ON outbox (state, id, merchant) WHERE state IN ('refused', 'exhausted', 'cancelled');

-- Every attempt that was settled, lost or late. By callback before merchant: what
-- is settled together is then kept together, in few pages.
CREATE TABLE attempts (
  merchant      TEXT NOT NULL,
  callback      TEXT NOT NULL,
  number        INTEGER NOT NULL,
  request_uuid  TEXT NOT NULL,
  started       INTEGER NOT NULL,
  duration      INTEGER NOT NULL, -- microseconds
  http_status   INTEGER NOT NULL,
  err_code      INTEGER,
  outcome       TEXT NOT NULL,
  reason        TEXT NOT NULL,
  node          TEXT NOT NULL,
  request_hash  BLOB NOT NULL,
  response_hash BLOB NOT NULL,
  late          INTEGER NOT NULL, -- 1: it came after its lease was lost and changed nothing
  accepted      INTEGER NOT NULL, -- 1: it made the callback accepted
  settled       INTEGER NOT NULL,
  failed        INTEGER NOT NULL, -- attempts up to here that count against the schedule
  PRIMARY KEY (callback, merchant, number)
) STRICT, WITHOUT ROWID;

-- A withdrawal has the id of its type 2 callback.
CREATE TABLE withdrawals (
  merchant       TEXT NOT NULL,
  id             TEXT NOT NULL,
  call_back_id   TEXT NOT NULL,
  tenant_user_id TEXT NOT NULL,
  tracking_id    TEXT NOT NULL,
  business       INTEGER NOT NULL,
  state          TEXT NOT NULL,
  decision       TEXT NOT NULL DEFAULT '',
  reason         TEXT NOT NULL DEFAULT '',
  deadline       INTEGER NOT NULL,
  created        INTEGER NOT NULL,
  decided        INTEGER NOT NULL DEFAULT 0,
  released       INTEGER NOT NULL DEFAULT 0,
  ended          INTEGER NOT NULL DEFAULT 0,
  claim          TEXT NOT NULL DEFAULT '',
  permit         TEXT NOT NULL DEFAULT '',
  tx_id          TEXT NOT NULL DEFAULT '',
  fail_reason    TEXT NOT NULL DEFAULT '',
  -- What the service was told; all empty where it was told nothing.
  ordered_address   TEXT NOT NULL DEFAULT '',
  ordered_chain     TEXT NOT NULL DEFAULT '',
  ordered_symbol    TEXT NOT NULL DEFAULT '',
  ordered_amount    TEXT NOT NULL DEFAULT '',
  -- What was confirmed; all empty before.
  confirmed_address TEXT NOT NULL DEFAULT '',
  confirmed_chain   TEXT NOT NULL DEFAULT '',
  confirmed_symbol  TEXT NOT NULL DEFAULT '',
  confirmed_amount  TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (merchant, id),
  UNIQUE (merchant, call_back_id)
) STRICT;
CREATE INDEX withdrawals_recent ON withdrawals (id, merchant);
CREATE INDEX withdrawals_state ON withdrawals (state, id, merchant);
CREATE INDEX withdrawals_deadline ON withdrawals (deadline) WHERE decision = '';

-- The last number given in each feed. Taken in the transaction that uses it,
-- last of all, so that numbers have no gaps and appear in order.
CREATE TABLE feeds (
  name     TEXT NOT NULL PRIMARY KEY,
  last_seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO feeds (name, last_seq) VALUES ('alarms', 0), ('decisions', 0);

CREATE TABLE decisions (
  seq        INTEGER NOT NULL PRIMARY KEY,
  merchant   TEXT NOT NULL,
  withdrawal TEXT NOT NULL
) STRICT;

CREATE TABLE alarms (
  seq      INTEGER NOT NULL PRIMARY KEY,
  merchant TEXT NOT NULL,
  kind     TEXT NOT NULL,
  subject  TEXT NOT NULL,
  at       INTEGER NOT NULL
) STRICT;
CREATE INDEX alarms_same ON alarms (merchant, kind, subject, at);

-- Private-side opening failures of the last hour.
CREATE TABLE open_failures (
  merchant TEXT NOT NULL,
  callback TEXT NOT NULL,
  number   INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  PRIMARY KEY (merchant, callback, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
  id      TEXT NOT NULL PRIMARY KEY,
  name    TEXT NOT NULL,
  role    TEXT NOT NULL,
  hash    BLOB NOT NULL UNIQUE,
  created INTEGER NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0
) STRICT;
