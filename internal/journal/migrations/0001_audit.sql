-- The audit log: a Merkle tree of records (RFC 6962). Rows never change.
CREATE TABLE audit_records (
  seq    {int} NOT NULL PRIMARY KEY,
  body   {bytes} NOT NULL, -- what is hashed
  hashes {bytes} NOT NULL, -- of the record, and of the subtrees that it completes, the smallest first
  leaves {bytes} NOT NULL  -- hashes of the items that the record tells of as one
){strict};
{postgres} ALTER TABLE audit_records ALTER COLUMN leaves SET STORAGE EXTERNAL; -- hashes do not compress

-- By which ids a record is found.
CREATE TABLE audit_subjects (
  subject {text} NOT NULL,
  seq     {int} NOT NULL,
  PRIMARY KEY (subject, seq)
){clustered};

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

-- What witnesses have cosigned.
CREATE TABLE audit_cosigned (
  witness TEXT NOT NULL, -- its URL
  size    {int} NOT NULL, -- of the checkpoint
  lines   TEXT NOT NULL, -- the line of its signature of the note
  PRIMARY KEY (witness, size)
){strict};

-- The key that signs checkpoints, sealed.
CREATE TABLE audit_key (
  id       {int} NOT NULL PRIMARY KEY,
  data_key {bytes} NOT NULL,
  private  {bytes} NOT NULL
){strict};

-- Up to which record exports were acknowledged. No row: none was.
CREATE TABLE audit_exported (
  id   {int} NOT NULL PRIMARY KEY,
  last {int} NOT NULL,
  mac  {bytes} NOT NULL -- db.Guarded
){strict};

-- The logs of years that were closed. The record behind the last one names its signed head.
CREATE TABLE audit_closed (
  last    {int} NOT NULL PRIMARY KEY, -- its last record
  year    {int} NOT NULL,
  at      {int} NOT NULL,   -- when it was closed
  edge    {bytes} NOT NULL, -- as audit_head had it then
  dropped {int} NOT NULL,   -- when its records were given up: they are removed from then on; 0: they are here
  mac     {bytes} NOT NULL  -- db.Guarded
){strict};

-- The newest checkpoint of the log of each other end of a signed link.
CREATE TABLE audit_peers (
  peer     {text} NOT NULL PRIMARY KEY, -- at the service a merchant's id, at the gateway: service
  log_key  TEXT NOT NULL,  -- verifies the notes
  note     TEXT NOT NULL,
  at       {int} NOT NULL, -- when it said so last, by its clock
  heard    {int} NOT NULL, -- when that came, by this end's clock
  epoch    {int} NOT NULL, -- that it declared
  acked    {int} NOT NULL, -- how many records of this end's log it holds
  unproved {int} NOT NULL, -- how often since then it said more without a proof
  broken   TEXT NOT NULL,  -- why it is not believed; empty: it is
  conflict TEXT NOT NULL,  -- the note that does not continue this one
  since    {int} NOT NULL, -- when that came
  mac      {bytes} NOT NULL -- db.Guarded
){strict};
