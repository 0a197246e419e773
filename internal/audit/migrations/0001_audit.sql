-- The audit log: a Merkle tree of records (RFC 6962). Rows never change.
CREATE TABLE audit_records (
  seq    {int} NOT NULL PRIMARY KEY,
  body   {bytes} NOT NULL, -- what is hashed
  hashes {bytes} NOT NULL, -- of the record, and of the subtrees that it completes, the smallest first
  leaves {bytes} NOT NULL  -- hashes of the items that the record tells of as one
){strict}
{postgres} WITH (autovacuum_vacuum_scale_factor = 0.02) -- each batch of the purge leaves dead rows at the beginning
;
{postgres} ALTER TABLE audit_records ALTER COLUMN leaves SET STORAGE EXTERNAL; -- hashes do not compress

-- By which ids a record is found.
CREATE TABLE audit_subjects (
  subject {text} NOT NULL,
  seq     {int} NOT NULL,
  PRIMARY KEY (subject, seq)
){clustered}
{postgres} WITH (autovacuum_vacuum_scale_factor = 0.02)
;

-- The one row is the head of the tree: every transaction that adds records locks it last.
CREATE TABLE audit_head (
  id   {int} NOT NULL PRIMARY KEY,
  size {int} NOT NULL,
  edge {bytes} NOT NULL -- hashes of the complete subtrees, the largest first
){strict}
{postgres} WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0)
;
INSERT INTO audit_head (id, size, edge) VALUES (1, 0, CAST('' AS {bytes}));

CREATE TABLE audit_checkpoints (
  size {int} NOT NULL PRIMARY KEY,
  at   {int} NOT NULL,
  note TEXT NOT NULL
){strict};
CREATE INDEX audit_checkpoints_at ON audit_checkpoints (at);

-- The key that signs checkpoints, sealed.
CREATE TABLE audit_key (
  id       {int} NOT NULL PRIMARY KEY,
  data_key {bytes} NOT NULL,
  private  {bytes} NOT NULL
){strict};

-- What stays of a record whose body was purged (--retain-audit).
CREATE TABLE audit_purged (
  seq    {int} NOT NULL PRIMARY KEY,
  hashes {bytes} NOT NULL -- as in audit_records
){strict};

-- All records. The body of one that was purged is empty.
CREATE VIEW audit_log AS
  SELECT seq, body, hashes, leaves FROM audit_records
{sqlite}  UNION ALL SELECT seq, x'', hashes, x'' FROM audit_purged
{postgres}  UNION ALL SELECT seq, ''::bytea, hashes, ''::bytea FROM audit_purged
;

-- Records that the purge has passed because what they tell of was not at its end.
CREATE TABLE audit_open (
  seq {int} NOT NULL PRIMARY KEY
){strict};

-- How far the purge of bodies has come. Its one row is locked for each batch, so that one
-- node works at a time, and all share the pace.
CREATE TABLE audit_retention (
  one    {int} NOT NULL PRIMARY KEY CHECK (one = 1),
  next   {int} NOT NULL DEFAULT 0, -- no batch begins before
  before {int} NOT NULL DEFAULT 0, -- what was added before this time may have been purged
  seq    {int} NOT NULL DEFAULT 0, -- the last record that was looked at; 0: none of this walk
  upto   {int} NOT NULL DEFAULT 0, -- the last record of this walk
  done   {int} NOT NULL DEFAULT 0, -- what comes later was never looked at
  walked {int} NOT NULL DEFAULT 0, -- purged in this walk
  purged {int} NOT NULL DEFAULT 0, -- ever
  exported {int} NOT NULL DEFAULT 0 -- nothing later is purged; 0: nobody acknowledges exports
){strict};
INSERT INTO audit_retention (one) VALUES (1);
