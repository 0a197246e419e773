-- The merchant's tables.

-- Every callback that was ever taken in, by its type and identifiers. Nothing
-- here is deleted: forgetting one would let its deposit be credited twice.
CREATE TABLE inbox (
  seq            {int} NOT NULL PRIMARY KEY,
  type           {int} NOT NULL,
  id             {text} NOT NULL,
  tenant_user_id {text} NOT NULL,
  call_back_id   {text} NOT NULL,
  content        {bytes} NOT NULL, -- digest of what the effect rests on
  transfer       {text}, -- digest of what moved to where, in part; NULL where nothing did
  payment        {text}, -- likewise, with the amount
  tx_index       {int} NOT NULL,
  duplicate      {int} NOT NULL,
  claims         {int} NOT NULL,
  lease_until    {int} NOT NULL,
  settled        {int} NOT NULL,
  created        {int} NOT NULL,
  ended          {int} NOT NULL, -- when it was settled
  reply          TEXT NOT NULL DEFAULT '', -- the answer to the service, once settled, as JSON; empty: errCode 0
  suspect        {int} NOT NULL DEFAULT 0, -- 1: the blocks of the callback belong to another one
  UNIQUE (id, type, call_back_id)
){strict};
CREATE INDEX inbox_transfer ON inbox (transfer, tx_index) WHERE transfer IS NOT NULL;
CREATE INDEX inbox_payment ON inbox (payment, seq) WHERE payment IS NOT NULL;
-- Every list is read by an index in the list's order, newest first.
CREATE INDEX inbox_order ON inbox (call_back_id, seq) WHERE call_back_id <> '';
CREATE INDEX inbox_open ON inbox (seq) WHERE settled = 0;
CREATE INDEX inbox_type ON inbox (type, seq) WHERE type <> 1;

-- What was seen in the last 30 days: blocks of requests of services that do not bind (PROTOCOL.md,
-- B5 and B7), and answers about withdrawals that the log has.
CREATE TABLE blocks (
  block {text} NOT NULL PRIMARY KEY, -- half of the digest of the sealed block or the answer, in hexadecimal
  body  {bytes} NOT NULL, -- half of the digest of the request that the block first came in
  owner {bytes}, -- what the block belongs to; NULL where nothing is known of that
  seen  {int} NOT NULL
){clustered};
CREATE INDEX blocks_seen ON blocks (seen);

-- Callbacks that were refused although they opened, or came with the right API key, each
-- once for each reason, and deposits that the merchant's check holds. The newest of the reason that
-- has the most go when there are too many.
CREATE TABLE refused (
{sqlite}  seq        INTEGER NOT NULL PRIMARY KEY,
{postgres}  seq        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  digest     {text} NOT NULL UNIQUE, -- of the reason and the content
  opened     {int} NOT NULL, -- 1: it opened
  type       {int} NOT NULL, -- 0: not known
  id         TEXT NOT NULL, -- trackingId, for type 2 callBackId; may be empty
  call_back_id TEXT NOT NULL, -- likewise
  reason     {text} NOT NULL,
  facts      TEXT NOT NULL, -- a JSON array
  setting    TEXT NOT NULL, -- what would let it through; may be empty
  code       {int} NOT NULL, -- the answer to the service, as message
  message    TEXT NOT NULL,
  first      {int} NOT NULL,
  last       {int} NOT NULL,
  number     {int} NOT NULL, -- how often it came
  state      {text} NOT NULL, -- open, taken, dismissed
  decided    {int} NOT NULL DEFAULT 0,
  decided_by TEXT NOT NULL DEFAULT '',
  note       TEXT NOT NULL DEFAULT '',
  due        {int} NOT NULL DEFAULT 0, -- when the merchant's check is asked again; 0: it is not
  size       {int} NOT NULL, -- of the body
  data_key   {bytes} NOT NULL,
  body       {bytes} NOT NULL -- sealed
){strict};
CREATE INDEX refused_room ON refused (due, reason, opened, state, seq, size);

-- The deposits, numbered without gaps.
CREATE TABLE deposits (
  seq            {int} NOT NULL PRIMARY KEY,
  tracking_id    {text} NOT NULL,
  tenant_user_id {text} NOT NULL,
  tx_id          {text} NOT NULL,
  chain_name     {text} NOT NULL,
  symbol         {text} NOT NULL,
  amount         {text} NOT NULL,
  from_address   {text} NOT NULL,
  to_address     {text} NOT NULL,
  risk_from      {int}, -- NULL: the service did not send it
  risk_to        {int}, -- likewise
  tx_index       {int} NOT NULL,
  business       {int} NOT NULL,
  state          {text} NOT NULL, -- taken, held, credited, rejected
  taken          {int} NOT NULL,
  decided        {int} NOT NULL DEFAULT 0,
  decided_by     {text} NOT NULL DEFAULT '',
  reason         {text} NOT NULL DEFAULT '',
  -- Members that the other columns do not show as they were sent, a JSON object; empty if
  -- there is none.
  as_sent        TEXT NOT NULL DEFAULT '',
  suspect        {int} NOT NULL DEFAULT 0 -- as in inbox
){strict};
CREATE INDEX deposits_doubted ON deposits (state, seq) WHERE state <> 'taken';
-- What people search deposits by. Members may be longer than an index can hold, so only
-- their first 64 characters are indexed.
CREATE INDEX deposits_tracking ON deposits (substr(tracking_id, 1, 64), seq);
CREATE INDEX deposits_tx ON deposits (substr(tx_id, 1, 64), seq);
CREATE INDEX deposits_user ON deposits (substr(tenant_user_id, 1, 64), seq);
CREATE INDEX deposits_address ON deposits (substr(to_address, 1, 64), seq);

-- Deposits that the merchant had booked before a restore and that the restored book
-- does not know. One that the service tells of again does not count; another one with
-- its transfer waits for a person.
CREATE TABLE booked_before (
  tracking_id TEXT NOT NULL PRIMARY KEY,
  sum         TEXT NOT NULL, -- symbol and amount; empty: the merchant did not say them
  transfer    TEXT NOT NULL, -- as in inbox; empty: the merchant did not say it
  payment     TEXT NOT NULL, -- likewise
  tx_index    {int} NOT NULL
){strict};
CREATE INDEX booked_transfer ON booked_before (transfer) WHERE transfer <> '';
CREATE INDEX booked_payment ON booked_before (payment) WHERE payment <> '';

-- What the merchant ordered. Tenant, details, end and labels never change.
CREATE TABLE orders (
{sqlite}  seq            INTEGER NOT NULL PRIMARY KEY,
{postgres}  seq            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  call_back_id   {text} NOT NULL UNIQUE,
  tenant_user_id {text} NOT NULL,
  address        {text} NOT NULL,
  chain_name     {text} NOT NULL,
  symbol         {text} NOT NULL,
  amount         {text} NOT NULL,
  labels         {text} NOT NULL, -- JSON
  expires        {int} NOT NULL,
  state          {text} NOT NULL, -- see OrderState
  reason         {text} NOT NULL DEFAULT '', -- of the last change of state
  decided_by     {text} NOT NULL DEFAULT '', -- who approved, declined or cancelled
  waiting        TEXT NOT NULL DEFAULT '', -- what the service said it waits for: funds or fees
  tx_id          {text} NOT NULL DEFAULT '',
  created        {int} NOT NULL,
  updated        {int} NOT NULL,
  confirmed      {int} NOT NULL DEFAULT 0,
  ended          {int} NOT NULL DEFAULT 0,
  folded_symbol  {text} NOT NULL DEFAULT '', -- symbol, in one spelling
  ordered_by     TEXT NOT NULL DEFAULT '', -- the token; empty: the service asked before anybody ordered
  restored       {int} NOT NULL DEFAULT 0 -- 1: from before a restore, and nobody has said what became of it
){strict};
CREATE INDEX orders_state ON orders (state, seq);
CREATE INDEX orders_user ON orders (tenant_user_id, seq);
CREATE INDEX orders_address ON orders (address, seq);
CREATE INDEX orders_tx ON orders (substr(tx_id, 1, 64), seq) WHERE tx_id <> '';
CREATE INDEX orders_expires ON orders (expires) WHERE state IN ('open', 'held', 'approved') AND expires < 4611686018427387904;
CREATE INDEX orders_restored ON orders (seq) WHERE restored <> 0;
CREATE INDEX orders_spent ON orders (folded_symbol, confirmed) WHERE confirmed > 0;

-- Every transaction that the service said executed a withdrawal, with its details. counted is
-- what the limits count of it beyond what they count of its order.
CREATE TABLE executions (
  call_back_id   {text} NOT NULL,
  payment        {text} NOT NULL, -- digest of txId and symbol, folded, and the user
  tx_id          {text} NOT NULL,
  tenant_user_id {text} NOT NULL,
  folded_symbol  {text} NOT NULL,
  amount         {text} NOT NULL, -- empty: the service did not say it, and nothing was ordered
  counted        {text} NOT NULL,
  reported       {int} NOT NULL,
  PRIMARY KEY (call_back_id, payment)
){clustered};
CREATE INDEX executions_spent ON executions (folded_symbol, reported);

-- Sums of what limits count, by the span of time: of orders that were confirmed and did not
-- end without execution, when they were confirmed, and of executions beyond them, when they
-- were reported. An empty tenant_user_id is all users together.
CREATE TABLE spent (
  symbol         {text} NOT NULL,
  tenant_user_id {text} NOT NULL,
  span           {int} NOT NULL, -- length: a minute, an hour or a day
  start          {int} NOT NULL,
  sum            {text} NOT NULL,
  PRIMARY KEY (symbol, tenant_user_id, span, start)
){clustered};

-- To which addresses each user's deposits went. No purge touches it: an address that replaces one
-- of them waits for a person, however old it is.
CREATE TABLE deposited_at (
  tenant_user_id {text} NOT NULL,
  chain          {text} NOT NULL, -- digest of the name, folded
  address        {text} NOT NULL, -- digest of AddressKey
  PRIMARY KEY (tenant_user_id, chain, address)
){clustered};
CREATE INDEX deposited_chain ON deposited_at (chain);

-- Users' deposit addresses as the service reported them.
CREATE TABLE addresses (
{sqlite}  seq            INTEGER NOT NULL PRIMARY KEY,
{postgres}  seq            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_user_id {text} NOT NULL,
  chain_name     {text} NOT NULL, -- may be empty, as may symbol and old_address
  symbol         {text} NOT NULL,
  address        {text} NOT NULL,
  old_address    {text} NOT NULL,
  state          {text} NOT NULL, -- taken, held, accepted, rejected
  taken          {int} NOT NULL,
  decided        {int} NOT NULL DEFAULT 0,
  decided_by     {text} NOT NULL DEFAULT '',
  reason         {text} NOT NULL DEFAULT '',
  chain          {text} NOT NULL, -- as in deposited_at; empty: it names none
  counts         {int} NOT NULL DEFAULT 0 -- grows with each address that begins to count: the highest is the one that does
){strict};
CREATE INDEX addresses_chain ON addresses (chain) WHERE counts > 0;
CREATE INDEX addresses_user ON addresses (tenant_user_id, seq);
CREATE INDEX addresses_state ON addresses (state, seq);
CREATE INDEX addresses_new ON addresses (substr(address, 1, 64), seq);
CREATE INDEX addresses_old ON addresses (substr(old_address, 1, 64), seq) WHERE old_address <> '';

-- What happened to orders, addresses and doubted deposits, numbered without gaps.
CREATE TABLE events (
  seq            {int} NOT NULL PRIMARY KEY,
  kind           {text} NOT NULL,
  at             {int} NOT NULL,
  call_back_id   {text} NOT NULL,
  deposit        {int} NOT NULL, -- seq of deposits, 0: none
  tenant_user_id {text} NOT NULL,
  state          {text} NOT NULL,
  address        {text} NOT NULL,
  old_address    {text} NOT NULL,
  chain_name     {text} NOT NULL,
  symbol         {text} NOT NULL,
  amount         {text} NOT NULL,
  tx_id          {text} NOT NULL,
  reason         {text} NOT NULL,
  decided_by     {text} NOT NULL
){strict};

-- The last entry of each feed that a named reader has acknowledged.
CREATE TABLE cursors (
  name     {text} NOT NULL PRIMARY KEY,
  deposits {int} NOT NULL,
  events   {int} NOT NULL,
  updated  {int} NOT NULL
){clustered};

-- What must still be forwarded to the merchant's application, from when it was recorded. A row
-- that is being sent is due again when its lease ends; one that was accepted is deleted.
CREATE TABLE forwards (
  feed     {text} NOT NULL, -- deposits or events
  seq      {int} NOT NULL,
  due      {int} NOT NULL DEFAULT 0, -- 0: it was never sent
  attempts {int} NOT NULL DEFAULT 0,
  reason   {text} NOT NULL DEFAULT '', -- of the last attempt that failed
  created  {int} NOT NULL,
  sending  {int} NOT NULL DEFAULT 0, -- 1: due ends the lease of an attempt
  PRIMARY KEY (feed, seq)
){clustered};
CREATE INDEX forwards_due ON forwards (due, created, feed, seq);
CREATE INDEX forwards_failed ON forwards (feed, seq) WHERE reason <> '';

-- Whether entries are forwarded.
CREATE TABLE forwarding (
  one   {int} NOT NULL PRIMARY KEY CHECK (one = 1),
  begun {int} NOT NULL DEFAULT 0 -- 0: no gateway that forwards has been started yet
){strict};
INSERT INTO forwarding (one) VALUES (1);

-- The state of the purge of deposits (--retain-days). Its one row is locked for each batch, so
-- that one node works at a time, and all share the pace.
CREATE TABLE retention (
  one    {int} NOT NULL PRIMARY KEY CHECK (one = 1),
  next   {int} NOT NULL DEFAULT 0, -- no batch begins before
  before {int} NOT NULL DEFAULT 0, -- what was taken before this time may have been purged
  seq    {int} NOT NULL DEFAULT 0, -- the last deposit that was looked at; 0: none of this walk
  upto   {int} NOT NULL DEFAULT 0, -- the last deposit that was purged
  walked {int} NOT NULL DEFAULT 0, -- purged in this walk
  purged {int} NOT NULL DEFAULT 0  -- ever
){strict};
INSERT INTO retention (one) VALUES (1);

INSERT INTO feeds (name, last_seq) VALUES ('inbox', 0), ('deposits', 0), ('events', 0);
-- forwards is what is still to be forwarded, orders/STATE all orders in a state.
INSERT INTO counts (name, n) VALUES ('forwards', 0);
