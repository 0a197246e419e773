-- The service's tables. Every key leads with the merchant, so that the tables
-- can be divided by merchant. Ids are the 26 characters after "<merchant>.".

CREATE TABLE merchants (
  id                   {text} NOT NULL PRIMARY KEY,
  state                TEXT NOT NULL,
  paused_reason        TEXT NOT NULL,
  scheme               TEXT NOT NULL,
  settings             TEXT NOT NULL, -- JSON: client.MerchantSettings
  version              {int} NOT NULL,
  created              {int} NOT NULL,
  updated              {int} NOT NULL,
  keys                 TEXT NOT NULL, -- JSON: outbox.keptKeys
  older_until          {int} NOT NULL, -- when the older of two sets of keys ends
  -- Its keys, sealed under the data key, that under the master key.
  secret_version       {int} NOT NULL,
  data_key             {bytes} NOT NULL,
  secrets              {bytes} NOT NULL,
  other_secrets        {bytes} NOT NULL -- of a second set
){strict};
CREATE INDEX merchants_older_until ON merchants (older_until) WHERE older_until < 4611686018427387904;

-- What limits the sending to one merchant in one lane. The row is the counter
-- that all nodes share.
CREATE TABLE lanes (
  merchant    {text} NOT NULL REFERENCES merchants (id),
  lane        {int} NOT NULL,
  -- Copies of the merchant's.
  active      {int} NOT NULL,
  version     {int} NOT NULL,
  concurrency {int} NOT NULL,
  rate        {real} NOT NULL,
  -- Claims and settlements change these.
  in_flight   {int} NOT NULL DEFAULT 0, -- rows of outbox that are sending
  next_due    {int} NOT NULL DEFAULT 4611686018427387904, -- of rows that are pending
  served      {int} NOT NULL DEFAULT 0, -- last claim: who waits longest comes first
  failures    {int} NOT NULL DEFAULT 0, -- exchanges in a row that reached nobody
  failing     {int} NOT NULL DEFAULT 0, -- since when
  open_until  {int} NOT NULL DEFAULT 0, -- breaker
  bucket      {real} NOT NULL DEFAULT 0, -- when the rate's bucket was or will be empty
  rate_ready  {int} NOT NULL DEFAULT 0, -- when it holds one more
  -- When a claim can next find something here. 5 is BreakerThreshold: behind a
  -- breaker that was open, one exchange at a time.
  ready       {int} NOT NULL GENERATED ALWAYS AS (
    CASE WHEN active = 0 OR in_flight >= CASE WHEN failures >= 5 THEN 1 ELSE concurrency END
      THEN 4611686018427387904
{sqlite}      ELSE max(next_due, served, open_until, rate_ready) END) STORED,
{postgres}      ELSE GREATEST(next_due, served, open_until, rate_ready) END) STORED,
  PRIMARY KEY (merchant, lane)
){clustered}
{postgres} WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0)
;
-- Those in which nothing waits are left out; and so is this index where lanes are
-- looked up, in PostgreSQL's plans of a small table.
CREATE INDEX lanes_ready ON lanes (lane, ready, merchant) WHERE ready < 4611686018427387904;

-- What the service says. Rows never change: what does is in outbox, so that the
-- many that are settled cost claims and settlements nothing. A callback without
-- a row there is accepted, by the attempt that says so.
CREATE TABLE callbacks (
  merchant     {text} NOT NULL,
  id           {text} NOT NULL,
  type         {int} NOT NULL,
  event_id     {text} NOT NULL,
  tracking_id  {text} NOT NULL,
  tx_id        {text} NOT NULL,
  call_back_id {text} NOT NULL,
  payload      {bytes} NOT NULL,
  deadline     {int} NOT NULL,
  created      {int} NOT NULL,
  added_by     TEXT NOT NULL DEFAULT '', -- the token whose call added it; empty: no call did
  -- By which people search: the user that it is about, and the address that what it tells
  -- of goes to.
  tenant_user_id {text} NOT NULL DEFAULT '',
  address        {text} NOT NULL DEFAULT '',
  PRIMARY KEY (merchant, id),
  UNIQUE (merchant, event_id, type)
){strict};
-- Every list is read by an index in the list's order, newest first, whatever filter
-- selects. What is accepted at the first attempt is in few of these.
CREATE INDEX callbacks_recent ON callbacks (id, merchant);
CREATE INDEX callbacks_type ON callbacks (type, id, merchant) WHERE type <> 1;
CREATE INDEX callbacks_type_of ON callbacks (merchant, type, id) WHERE type <> 1;
CREATE INDEX callbacks_tracking ON callbacks (tracking_id, id, merchant) WHERE type <> 1; -- type 1: event_id
CREATE INDEX callbacks_tx ON callbacks (tx_id, id, merchant) WHERE tx_id <> '';
CREATE INDEX callbacks_order ON callbacks (call_back_id, id, merchant) WHERE call_back_id <> '';
CREATE INDEX callbacks_user ON callbacks (tenant_user_id, id, merchant) WHERE tenant_user_id <> '';
CREATE INDEX callbacks_address ON callbacks (address, id, merchant) WHERE address <> '';

-- Callbacks that are not accepted: waiting, sending, or ended otherwise.
CREATE TABLE outbox (
  merchant    {text} NOT NULL,
  id          {text} NOT NULL,
  lane        {int} NOT NULL,
  state       TEXT NOT NULL, -- pending, sending, refused, exhausted, cancelled
  due         {int} NOT NULL,
  lease_until {int} NOT NULL DEFAULT 0,
  attempts    {int} NOT NULL DEFAULT 0, -- started; the current one's number while sending
  failed      {int} NOT NULL DEFAULT 0, -- that count against the schedule
  deadline    {int} NOT NULL,
  last_reason TEXT NOT NULL DEFAULT '',
  settled     {int} NOT NULL DEFAULT 0,
  held        {int} NOT NULL DEFAULT 0, -- attempts that the merchant held since the schedule began
  repeated    {int} NOT NULL DEFAULT 0, -- 1: the merchant had accepted it, and a person asked for it once more
  PRIMARY KEY (merchant, id)
){clustered}
{postgres} WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0)
;
CREATE INDEX outbox_due ON outbox (merchant, lane, due, id) WHERE state = 'pending';
-- Not "state = 'sending'": while outbox is small, PostgreSQL would take this index
-- for every statement that has that as its guard, and keep to that plan.
CREATE INDEX outbox_lease ON outbox (lease_until) WHERE lease_until > 0;
-- Not "lane = 0": SQLite would compare that with the parameter of every
-- "lane = $n" and prepare those statements again for each value.
CREATE INDEX outbox_deadline ON outbox (deadline) WHERE state = 'pending' AND lane <> 1 AND deadline < 4611686018427387904;
-- Waiting: pending and sending. Claims do not change settled.
CREATE INDEX outbox_waiting ON outbox (id, merchant) WHERE settled = 0;
-- Ended: refused, exhausted and cancelled. Not "state IN (…)": SQLite does not see that
-- it follows from one state.
CREATE INDEX outbox_ended ON outbox (state, id, merchant) WHERE settled > 0;
-- Expressions, because for the columns SQLite would take the primary key or outbox_ended.
CREATE INDEX outbox_ended_of ON outbox ((merchant || ''), (state || ''), id) WHERE settled > 0;

-- Every attempt that was settled, in time or late. In SQLite by callback before merchant: what
-- is settled together is then kept together, in few pages.
CREATE TABLE attempts (
  merchant      {text} NOT NULL,
  callback      {text} NOT NULL,
  number        {int} NOT NULL,
  request_uuid  TEXT NOT NULL,
  started       {int} NOT NULL,
  duration      {int} NOT NULL, -- milliseconds
  http_status   {int} NOT NULL,
  err_code      {int},
  outcome       TEXT NOT NULL,
  reason        TEXT NOT NULL,
  node          TEXT NOT NULL,
  request_hash  {bytes} NOT NULL,
  response_hash {bytes} NOT NULL,
  late          {int} NOT NULL, -- 1: it came after its lease was lost and changed nothing
  accepted      {int} NOT NULL, -- 1: it made the callback accepted
  settled       {int} NOT NULL,
  failed        {int} NOT NULL, -- attempts up to here that count against the schedule
  facts         TEXT NOT NULL DEFAULT '', -- JSON: client.Facts; empty: there are none
{sqlite}  PRIMARY KEY (callback, merchant, number)
{postgres}  PRIMARY KEY (merchant, callback, number)
){clustered};

-- By the requestUUID of a failed attempt, which merchants ask about. Most attempts are accepted
-- and are not in it.
CREATE INDEX attempts_failed ON attempts (request_uuid) WHERE accepted = 0;

-- A withdrawal has the id of its type 2 callback.
CREATE TABLE withdrawals (
  merchant       {text} NOT NULL,
  id             {text} NOT NULL,
  call_back_id   {text} NOT NULL,
  tenant_user_id TEXT NOT NULL,
  tracking_id    TEXT NOT NULL,
  business       {int} NOT NULL,
  state          TEXT NOT NULL,
  decision       TEXT NOT NULL DEFAULT '',
  reason         TEXT NOT NULL DEFAULT '',
  deadline       {int} NOT NULL,
  created        {int} NOT NULL,
  decided        {int} NOT NULL DEFAULT 0,
  released       {int} NOT NULL DEFAULT 0,
  ended          {int} NOT NULL DEFAULT 0,
  -- Who holds the permit: the claim, and where the token that took it comes from. A permit
  -- that was taken over after a restore has no origin until its claim is repeated.
  claim          TEXT NOT NULL DEFAULT '',
  origin         TEXT NOT NULL DEFAULT '',
  permit         TEXT NOT NULL DEFAULT '',
  tx_id          TEXT NOT NULL DEFAULT '',
  fail_reason    TEXT NOT NULL DEFAULT '',
  -- What the core said of it; all empty if it said nothing.
  ordered_address   TEXT NOT NULL DEFAULT '',
  ordered_chain     TEXT NOT NULL DEFAULT '',
  ordered_symbol    TEXT NOT NULL DEFAULT '',
  ordered_amount    TEXT NOT NULL DEFAULT '',
  -- What was confirmed; all empty before.
  confirmed_address TEXT NOT NULL DEFAULT '',
  confirmed_chain   TEXT NOT NULL DEFAULT '',
  confirmed_symbol  TEXT NOT NULL DEFAULT '',
  confirmed_amount  TEXT NOT NULL DEFAULT '',
  -- Why a confirmed one was blocked for ever, and by which token.
  blocked_reason TEXT NOT NULL DEFAULT '',
  blocked_by     TEXT NOT NULL DEFAULT '',
  release_by     {int} NOT NULL DEFAULT 0, -- from when on it is not released any more; 0: it is not confirmed
  restored       {int} NOT NULL DEFAULT 0, -- 1: from before a restore, and nobody has said what became of it
  PRIMARY KEY (merchant, id),
  UNIQUE (merchant, call_back_id)
){strict};
-- A merchant identifies the reports of how a withdrawal ended by their trackingId too.
CREATE UNIQUE INDEX withdrawals_tracking ON withdrawals (merchant, tracking_id) WHERE tracking_id <> '';
CREATE INDEX withdrawals_restored ON withdrawals (merchant, id) WHERE restored <> 0;
CREATE INDEX withdrawals_recent ON withdrawals (id, merchant);
CREATE INDEX withdrawals_state ON withdrawals (state, id, merchant);
CREATE INDEX withdrawals_state_of ON withdrawals (merchant, state, id);
CREATE INDEX withdrawals_deadline ON withdrawals (deadline) WHERE decision = '';
CREATE INDEX withdrawals_release_by ON withdrawals (release_by) WHERE state = 'confirmed';
CREATE INDEX withdrawals_user ON withdrawals (tenant_user_id, id, merchant);
CREATE INDEX withdrawals_tx ON withdrawals (tx_id, id, merchant) WHERE tx_id <> '';
-- The address that was confirmed, or else the one that was ordered.
CREATE INDEX withdrawals_address ON withdrawals ((CASE WHEN confirmed_address <> '' THEN confirmed_address ELSE ordered_address END), id, merchant);

-- What confirmed a withdrawal, sealed: a signed answer, whose body has the merchant's API key, or
-- the details of an unsigned one.
CREATE TABLE answers (
  id       {text} NOT NULL PRIMARY KEY, -- of the withdrawal, with its merchant
  data_key {bytes} NOT NULL,
  answer   {bytes} NOT NULL -- JSON: outbox.evidence
){clustered};

-- The feed of decisions.
CREATE TABLE decisions (
  seq        {int} NOT NULL PRIMARY KEY,
  merchant   {text} NOT NULL,
  withdrawal {text} NOT NULL
){strict};
INSERT INTO feeds (name, last_seq) VALUES ('decisions', 0);
-- The parts of the feeds that a bound token reads.
CREATE INDEX decisions_of ON decisions (merchant, seq);
CREATE INDEX alarms_of ON alarms (merchant, seq);

-- Private-side opening failures of the last hour.
CREATE TABLE open_failures (
  merchant {text} NOT NULL,
  callback {text} NOT NULL,
  number   {int} NOT NULL,
  at       {int} NOT NULL,
  PRIMARY KEY (merchant, callback, number)
){clustered};

-- When a merchant was last reached and accepted something, and its last failure.
CREATE TABLE health (
  merchant {text} NOT NULL PRIMARY KEY,
  reached  {int} NOT NULL,
  accepted {int} NOT NULL,
  failing  {int} NOT NULL, -- since when; 0: its last answer was taken
  failed   {int} NOT NULL,
  callback TEXT NOT NULL,  -- of the last failure, with its reason and facts
  reason   TEXT NOT NULL,
  facts    TEXT NOT NULL,
  alarmed  {int} NOT NULL DEFAULT 0, -- 1: the alarm merchant_failing stands
  period   {int} NOT NULL DEFAULT 0, -- of five minutes since 1970, in which an attempt last ended
  attempts {int} NOT NULL DEFAULT 0, -- that ended in it, and half of those that counted before
  failures {int} NOT NULL DEFAULT 0  -- likewise
){clustered};

-- Whether the whole service is frozen; without a row it is not. Decisions and releases look at it and at their merchant in their own transaction.
CREATE TABLE frozen (
  id       TEXT NOT NULL PRIMARY KEY CHECK (id = 'service'),
  at       {int} NOT NULL, -- when the freeze began; 0: it is not frozen
  by_token TEXT NOT NULL,
  reason   TEXT NOT NULL
){clustered};

-- How many deposits a token with a limit has added in each hour since 1970, of which the last
-- two are kept.
CREATE TABLE added (
  token TEXT NOT NULL,
  hour  {int} NOT NULL,
  n     {int} NOT NULL,
  PRIMARY KEY (token, hour)
){clustered};

-- Callbacks that were accepted and purged (--retain-days): what a repetition needs, for ever.
-- The type is that of the service's rows; digest is the SHA-256 of the payload.
CREATE TABLE purged (
  merchant {text} NOT NULL,
  event_id {text} NOT NULL,
{sqlite}  type     INTEGER NOT NULL,
{postgres}  type     SMALLINT NOT NULL, -- one row a callback for ever: 2 bytes
  id       {text} NOT NULL,
  digest   {bytes} NOT NULL,
  PRIMARY KEY (merchant, event_id, type)
){clustered};

-- The state of the purge. Its one row is locked for each batch, so that one node works
-- at a time, and all share the pace.
CREATE TABLE retention (
  one      {int} NOT NULL PRIMARY KEY CHECK (one = 1),
  next     {int} NOT NULL DEFAULT 0, -- no batch begins before
  before   {int} NOT NULL DEFAULT 0, -- what was settled before this time may have been purged
  merchant TEXT NOT NULL DEFAULT '', -- the last callback that was looked at; empty: none of this walk
  id       TEXT NOT NULL DEFAULT '',
  walked   {int} NOT NULL DEFAULT 0, -- purged in this walk
  purged   {int} NOT NULL DEFAULT 0  -- ever
){strict};
INSERT INTO retention (one) VALUES (1);

-- callbacks/LANE is all callbacks of a lane, callbacks/LANE/STATE those that ended in a state, and
-- withdrawals/STATE all withdrawals in a state.
INSERT INTO counts (name, n) VALUES ('callbacks/notify', 0), ('callbacks/withdraw', 0);
