-- The audit log: a Merkle tree of records (RFC 6962). Rows never change.
CREATE TABLE audit_records (
  seq    BIGINT NOT NULL PRIMARY KEY,
  body   BYTEA NOT NULL, -- what is hashed
  hashes BYTEA NOT NULL, -- of the record, and of the subtrees that it completes, the smallest first
  leaves BYTEA NOT NULL  -- hashes of the items that the record tells of as one
);
ALTER TABLE audit_records ALTER COLUMN leaves SET STORAGE EXTERNAL; -- hashes do not compress

-- By which ids a record is found.
CREATE TABLE audit_subjects (
  subject TEXT COLLATE "C" NOT NULL,
  seq     BIGINT NOT NULL,
  PRIMARY KEY (subject, seq)
);

-- The one row is the head of the tree: every transaction that adds records locks it last.
CREATE TABLE audit_head (
  id   BIGINT NOT NULL PRIMARY KEY,
  size BIGINT NOT NULL,
  edge BYTEA NOT NULL -- hashes of the complete subtrees, the largest first
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
INSERT INTO audit_head (id, size, edge) VALUES (1, 0, '');

CREATE TABLE audit_checkpoints (
  size BIGINT NOT NULL PRIMARY KEY,
  at   BIGINT NOT NULL,
  note TEXT NOT NULL
);

-- The key that signs checkpoints, sealed.
CREATE TABLE audit_key (
  id       BIGINT NOT NULL PRIMARY KEY,
  data_key BYTEA NOT NULL,
  private  BYTEA NOT NULL
);
