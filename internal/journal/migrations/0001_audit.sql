-- The journal: a Merkle tree of records (RFC 6962). Rows never change.
CREATE TABLE audit_records (
  seq    {int} NOT NULL PRIMARY KEY,
  body   {bytes} NOT NULL, -- what is hashed
  hashes {bytes} NOT NULL  -- of the record, and of the subtrees that it completes, the smallest first
){strict};

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

-- The key that signs checkpoints, sealed: both parts.
CREATE TABLE audit_key (
  id       {int} NOT NULL PRIMARY KEY,
  data_key {bytes} NOT NULL,
  private  {bytes} NOT NULL
){strict};
