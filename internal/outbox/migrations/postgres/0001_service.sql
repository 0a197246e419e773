-- The service's tables. Every key leads with the merchant, so that the tables
-- can be divided by merchant. Times are milliseconds since 1970 UTC; 2^62 is
-- never. Ids are the 26 characters after "<merchant>.".

-- Sealed values and whatever else there is one of.
CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value BYTEA NOT NULL
);

CREATE TABLE merchants (
  id                   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  name                 TEXT NOT NULL,
  state                TEXT NOT NULL,
  paused_reason        TEXT NOT NULL,
  notify_url           TEXT NOT NULL,
  withdraw_url         TEXT NOT NULL,
  scheme               TEXT NOT NULL,
  settings             TEXT NOT NULL, -- JSON
  concurrency          BIGINT NOT NULL,
  rate                 DOUBLE PRECISION NOT NULL, -- callbacks a second, 0: no limit
  confirm_within       BIGINT NOT NULL, -- nanoseconds
  version              BIGINT NOT NULL,
  created              BIGINT NOT NULL,
  updated              BIGINT NOT NULL,
  fingerprint          TEXT NOT NULL,
  response_fingerprint TEXT NOT NULL,
  -- Secrets: sealed under the data key, that under the master key.
  secret_version       BIGINT NOT NULL,
  data_key             BYTEA NOT NULL,
  api_key              BYTEA NOT NULL,
  callback_api_key     BYTEA NOT NULL,
  request_key          BYTEA NOT NULL,
  response_key         BYTEA NOT NULL
);

-- What limits the sending to one merchant in one lane. The row is the counter
-- that all nodes share.
CREATE TABLE lanes (
  merchant    TEXT COLLATE "C" NOT NULL REFERENCES merchants (id),
  lane        BIGINT NOT NULL,
  -- Copies of the merchant's.
  active      BIGINT NOT NULL,
  concurrency BIGINT NOT NULL,
  rate        DOUBLE PRECISION NOT NULL,
  version     BIGINT NOT NULL,
  -- Claims and settlements change these.
  in_flight   BIGINT NOT NULL DEFAULT 0, -- rows of outbox that are sending
  next_due    BIGINT NOT NULL DEFAULT 4611686018427387904, -- of rows that are pending
  served      BIGINT NOT NULL DEFAULT 0, -- last claim: who waits longest comes first
  failures    BIGINT NOT NULL DEFAULT 0, -- exchanges in a row that reached nobody
  open_until  BIGINT NOT NULL DEFAULT 0, -- breaker
  bucket      DOUBLE PRECISION NOT NULL DEFAULT 0, -- when the rate's bucket was or will be empty
  rate_ready  BIGINT NOT NULL DEFAULT 0, -- when it holds one more
  -- Callbacks in final states.
  accepted    BIGINT NOT NULL DEFAULT 0,
  refused     BIGINT NOT NULL DEFAULT 0,
  exhausted   BIGINT NOT NULL DEFAULT 0,
  cancelled   BIGINT NOT NULL DEFAULT 0,
  -- When a claim can next find something here. 5 is BreakerThreshold: behind a
  -- breaker that was open, one exchange at a time.
  ready       BIGINT NOT NULL GENERATED ALWAYS AS (
    CASE WHEN active = 0 OR in_flight >= CASE WHEN failures >= 5 THEN 1 ELSE concurrency END
      THEN 4611686018427387904
      ELSE GREATEST(next_due, served, open_until, rate_ready) END) STORED,
  PRIMARY KEY (merchant, lane)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- Those in which nothing waits are left out; and so is this index where lanes are
-- looked up, in PostgreSQL's plans of a small table.
CREATE INDEX lanes_ready ON lanes (lane, ready, merchant) WHERE ready < 4611686018427387904;

-- What the service says. Rows never change: what does is in outbox, so that the
-- many that are settled cost claims and settlements nothing. A callback without
-- a row there is accepted, by the attempt that says so.
CREATE TABLE callbacks (
  merchant     TEXT COLLATE "C" NOT NULL,
  id           TEXT COLLATE "C" NOT NULL,
  type         BIGINT NOT NULL,
  event_id     TEXT COLLATE "C" NOT NULL,
  tracking_id  TEXT COLLATE "C" NOT NULL,
  tx_id        TEXT COLLATE "C" NOT NULL,
  call_back_id TEXT COLLATE "C" NOT NULL,
  payload      BYTEA NOT NULL,
  deadline     BIGINT NOT NULL,
  created      BIGINT NOT NULL,
  PRIMARY KEY (merchant, id),
  UNIQUE (merchant, event_id, type)
);
CREATE INDEX callbacks_recent ON callbacks (id, merchant);
CREATE INDEX callbacks_type ON callbacks (type, id, merchant) WHERE type <> 1;
CREATE INDEX callbacks_tracking ON callbacks (merchant, tracking_id) WHERE type <> 1; -- type 1: event_id
CREATE INDEX callbacks_tx ON callbacks (merchant, tx_id) WHERE tx_id <> '';
CREATE INDEX callbacks_order ON callbacks (merchant, call_back_id) WHERE call_back_id <> '';

-- Callbacks that are not accepted: waiting, sending, or ended otherwise.
CREATE TABLE outbox (
  merchant    TEXT COLLATE "C" NOT NULL,
  id          TEXT COLLATE "C" NOT NULL,
  lane        BIGINT NOT NULL,
  state       TEXT NOT NULL, -- pending, sending, refused, exhausted, cancelled
  due         BIGINT NOT NULL,
  lease_until BIGINT NOT NULL DEFAULT 0,
  attempts    BIGINT NOT NULL DEFAULT 0, -- started; the current one's number while sending
  failed      BIGINT NOT NULL DEFAULT 0, -- that count against the schedule
  deadline    BIGINT NOT NULL,
  node        TEXT NOT NULL DEFAULT '', -- who claimed it
  claimed     BIGINT NOT NULL DEFAULT 0,
  last_reason TEXT NOT NULL DEFAULT '',
  settled     BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (merchant, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX outbox_due ON outbox (merchant, lane, due, id) WHERE state = 'pending';
-- Not "state = 'sending'": while outbox is small, PostgreSQL would take this index
-- for every statement that has that as its guard, and keep to that plan.
CREATE INDEX outbox_lease ON outbox (lease_until) WHERE lease_until > 0;
-- Not "lane = 0": SQLite would compare that with the parameter of every
-- "lane = $n" and prepare those statements again for each value.
CREATE INDEX outbox_deadline ON outbox (deadline) WHERE state = 'pending' AND lane <> 1 AND deadline < 4611686018427387904;
CREATE INDEX outbox_ended ON outbox (state, id, merchant) WHERE state IN ('refused', 'exhausted', 'cancelled');

-- Every attempt that was settled, lost or late.
CREATE TABLE attempts (
  merchant      TEXT COLLATE "C" NOT NULL,
  callback      TEXT COLLATE "C" NOT NULL,
  number        BIGINT NOT NULL,
  request_uuid  TEXT NOT NULL,
  started       BIGINT NOT NULL,
  duration      BIGINT NOT NULL, -- microseconds
  http_status   BIGINT NOT NULL,
  err_code      BIGINT,
  outcome       TEXT NOT NULL,
  reason        TEXT NOT NULL,
  node          TEXT NOT NULL,
  request_hash  BYTEA NOT NULL,
  response_hash BYTEA NOT NULL,
  late          BIGINT NOT NULL, -- 1: it came after its lease was lost and changed nothing
  accepted      BIGINT NOT NULL, -- 1: it made the callback accepted
  settled       BIGINT NOT NULL,
  failed        BIGINT NOT NULL, -- attempts up to here that count against the schedule
  PRIMARY KEY (merchant, callback, number)
);

-- A withdrawal has the id of its type 2 callback.
CREATE TABLE withdrawals (
  merchant       TEXT COLLATE "C" NOT NULL,
  id             TEXT COLLATE "C" NOT NULL,
  call_back_id   TEXT COLLATE "C" NOT NULL,
  tenant_user_id TEXT NOT NULL,
  tracking_id    TEXT NOT NULL,
  business       BIGINT NOT NULL,
  state          TEXT NOT NULL,
  decision       TEXT NOT NULL DEFAULT '',
  reason         TEXT NOT NULL DEFAULT '',
  deadline       BIGINT NOT NULL,
  created        BIGINT NOT NULL,
  decided        BIGINT NOT NULL DEFAULT 0,
  released       BIGINT NOT NULL DEFAULT 0,
  ended          BIGINT NOT NULL DEFAULT 0,
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
);
CREATE INDEX withdrawals_recent ON withdrawals (id, merchant);
CREATE INDEX withdrawals_state ON withdrawals (state, id, merchant);
CREATE INDEX withdrawals_deadline ON withdrawals (deadline) WHERE decision = '';

-- The last number given in each feed. Taken in the transaction that uses it,
-- last of all, so that numbers have no gaps and appear in order.
CREATE TABLE feeds (
  name     TEXT NOT NULL PRIMARY KEY,
  last_seq BIGINT NOT NULL
);
INSERT INTO feeds (name, last_seq) VALUES ('alarms', 0), ('decisions', 0);

CREATE TABLE decisions (
  seq        BIGINT NOT NULL PRIMARY KEY,
  merchant   TEXT COLLATE "C" NOT NULL,
  withdrawal TEXT COLLATE "C" NOT NULL
);

CREATE TABLE alarms (
  seq      BIGINT NOT NULL PRIMARY KEY,
  merchant TEXT COLLATE "C" NOT NULL,
  kind     TEXT NOT NULL,
  subject  TEXT NOT NULL,
  at       BIGINT NOT NULL
);
CREATE INDEX alarms_same ON alarms (merchant, kind, subject, at);

-- Private-side opening failures of the last hour.
CREATE TABLE open_failures (
  merchant TEXT COLLATE "C" NOT NULL,
  callback TEXT COLLATE "C" NOT NULL,
  number   BIGINT NOT NULL,
  at       BIGINT NOT NULL,
  PRIMARY KEY (merchant, callback, number)
);

CREATE TABLE tokens (
  id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  name    TEXT NOT NULL,
  role    TEXT NOT NULL,
  hash    BYTEA NOT NULL UNIQUE,
  created BIGINT NOT NULL,
  revoked BIGINT NOT NULL DEFAULT 0
);
