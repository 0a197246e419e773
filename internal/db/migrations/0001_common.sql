-- What both ends keep beside their own rows and the audit log. Times are milliseconds
-- since 1970 UTC; 2^62 is never. Dialect says what the marks in braces stand for.

-- What there is one of, such as the fingerprint of the master key.
CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value {bytes} NOT NULL
){strict};

-- The last number given in each feed. Taken in the transaction that uses it,
-- last of all, so that numbers have no gaps and appear in order.
CREATE TABLE feeds (
  name     TEXT NOT NULL PRIMARY KEY,
  last_seq {int} NOT NULL
){clustered};
INSERT INTO feeds (name, last_seq) VALUES ('alarms', 0);

-- Kept numbers; see db/counts.go. alarms/KIND is how often alarms of a kind were raised,
-- alarms-open/KIND how many rows of alarms are open.
CREATE TABLE counts (
{sqlite}  name TEXT NOT NULL PRIMARY KEY,
{postgres}  name {text} NOT NULL, -- in several rows, whose sum counts
  n    {int} NOT NULL
){clustered}
{postgres} WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0)
;

-- One row stands for all alarms of a kind about a merchant, or about a subject, until a person
-- acknowledges it or it ends by itself. seq is a number of the feed.
CREATE TABLE alarms (
  seq        {int} NOT NULL PRIMARY KEY,
  merchant   {text} NOT NULL, -- empty: of none, as always at the gateway
  kind       {text} NOT NULL,
  subject    {text} NOT NULL, -- empty if one row stands for all subjects
  first      {int} NOT NULL,
  last       {int} NOT NULL,
  number     {int} NOT NULL, -- how often it was raised
  examples   TEXT NOT NULL, -- JSON: subjects, the last first
  -- When, by which token and that one's name it was acknowledged; 0: it was not.
  acked      {int} NOT NULL DEFAULT 0,
  acked_by   TEXT NOT NULL DEFAULT '',
  acked_name TEXT NOT NULL DEFAULT '',
  acked_note TEXT NOT NULL DEFAULT '',
  -- When and why it ended by itself; 0: it has not.
  ended      {int} NOT NULL DEFAULT 0,
  ended_text TEXT NOT NULL DEFAULT '',
  -- What is posted of it; see db/alarms.go.
  due        {int} NOT NULL,
  posted     {int} NOT NULL DEFAULT 0,
  attempts   {int} NOT NULL DEFAULT 0
){strict};
CREATE INDEX alarms_due ON alarms (due, seq);
CREATE INDEX alarms_standing ON alarms (kind, merchant, subject, acked) WHERE ended = 0;
-- Lists of alarms by state and kind.
CREATE INDEX alarms_open ON alarms (seq) WHERE acked = 0 AND ended = 0;
CREATE INDEX alarms_kind ON alarms (kind, seq);

-- What people said about a thing: approvals and notes. Rows never change; a token's new approval takes the place of
-- its void one.
CREATE TABLE votes (
  about {text} NOT NULL, -- the kind of thing, a slash, and its id
  seq   {int} NOT NULL, -- from 1 among those about it
  token TEXT NOT NULL,
  name  TEXT NOT NULL, -- of the token then
  at    {int} NOT NULL,
  shown TEXT NOT NULL, -- SHA-256 of what was approved: a row counts for nothing else; empty: a note
  text  TEXT NOT NULL, -- of an approval the reason
  PRIMARY KEY (about, seq)
){clustered};

-- Who may do what. merchants: ids that the token is bound to, with a space between;
-- empty: all. maker: the token that made it. root: where it comes from; tokens of one
-- root do not decide on what each other propose. expires 0: never.
CREATE TABLE tokens (
  id        {text} NOT NULL PRIMARY KEY,
  name      TEXT NOT NULL,
  role      TEXT NOT NULL,
  hash      {bytes} NOT NULL UNIQUE,
  created   {int} NOT NULL,
  revoked   {int} NOT NULL DEFAULT 0,
  merchants TEXT NOT NULL DEFAULT '',
  maker     TEXT NOT NULL DEFAULT '',
  root      TEXT NOT NULL DEFAULT '',
  expires   {int} NOT NULL DEFAULT 0,
  hourly    {int} NOT NULL DEFAULT 0, -- how many deposits it may add an hour; 0: no bound
  approver  {int} NOT NULL DEFAULT 0, -- 1: it is or was an approver's, so changes wait
  subject   TEXT NOT NULL DEFAULT '' -- of a person: the identity provider, a space, and its id of the person
){strict};
CREATE INDEX tokens_created ON tokens (created, id);

-- The pair of the signed link, sealed.
CREATE TABLE signing_key (
  id       {int} NOT NULL PRIMARY KEY,
  data_key {bytes} NOT NULL,
  private  {bytes} NOT NULL
){strict};

-- People who signed in with the identity provider, until the session ends.
CREATE TABLE sessions (
  id       {text} NOT NULL PRIMARY KEY, -- SHA-256 of its secret
  token    {text} NOT NULL, -- the person's row
  ends     {int} NOT NULL, -- at the latest
  asked    {int} NOT NULL, -- when the provider last said that it goes on
  signed_in {int} NOT NULL, -- when the person did at the provider; 0: it does not say
  claimed  {int} NOT NULL DEFAULT 0, -- until when a node asks the provider, or none does
  refresh  {bytes} NOT NULL, -- sealed: what the provider is asked with
  data_key {bytes} NOT NULL
){strict};
CREATE INDEX sessions_token ON sessions (token);

-- Changes that wait for a second person, and those that did not have to. content is
-- sealed, what is needed to make the change; it is empty once the change is decided.
CREATE TABLE changes (
  id          {text} NOT NULL PRIMARY KEY, -- sorts by time
  kind        TEXT NOT NULL,
  merchant    {text} NOT NULL, -- empty: of none
  version     {int} NOT NULL, -- of the merchant, before
  token       TEXT NOT NULL, -- that is made or revoked; empty: none
  bound       TEXT NOT NULL, -- merchants of that token
  state       TEXT NOT NULL, -- as of its task
  was         TEXT NOT NULL, -- JSON, for people
  becomes     TEXT NOT NULL,
  proposed_by TEXT NOT NULL,
  proposed    {int} NOT NULL,
  decided_by  TEXT NOT NULL DEFAULT '',
  decided     {int} NOT NULL DEFAULT 0,
  reason      TEXT NOT NULL DEFAULT '',
  data_key    {bytes} NOT NULL,
  content     {bytes} NOT NULL
){strict};
CREATE INDEX changes_state ON changes (state, id);
CREATE INDEX changes_of ON changes (merchant, id);

-- An epoch begins when the database is restored from a backup: what came after that
-- backup is lost here, and may have happened. No row: it was never restored.
CREATE TABLE epochs (
  number     {int} NOT NULL PRIMARY KEY, -- seconds since 2026-01-01 UTC
  began      {int} NOT NULL,
  ends       TEXT NOT NULL,   -- the last number that each feed had before, in JSON. It goes on behind number * 1000000, so that no number is given twice
  reconciled {int} NOT NULL DEFAULT 0 -- when a person had settled what is open; 0: not yet
){strict};

-- Sessions of browsers that people have ended, until they would have ended by themselves.
CREATE TABLE ended_sessions (
  id    {text} NOT NULL PRIMARY KEY,
  until {int} NOT NULL
){clustered};

-- The processes that use this database. Each writes its row every few seconds, and
-- deletes it when it stops.
CREATE TABLE nodes (
  id      TEXT NOT NULL PRIMARY KEY, -- random, of one run
  name    TEXT NOT NULL,
  version TEXT NOT NULL,
  started {int} NOT NULL,
  seen    {int} NOT NULL -- when it last wrote the row
){clustered};
