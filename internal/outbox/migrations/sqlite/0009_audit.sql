-- The audit log: a Merkle tree of records (RFC 6962). Rows never change.
CREATE TABLE audit_records (
  seq    INTEGER NOT NULL PRIMARY KEY,
  body   BLOB NOT NULL, -- what is hashed
  hashes BLOB NOT NULL, -- of the record, and of the subtrees that it completes, the smallest first
  leaves BLOB NOT NULL  -- hashes of the items that the record tells of as one
) STRICT;

-- By which ids a record is found.
CREATE TABLE audit_subjects (
  subject TEXT NOT NULL,
  seq     INTEGER NOT NULL,
  PRIMARY KEY (subject, seq)
) STRICT, WITHOUT ROWID;

-- The one row is the head of the tree: every transaction that adds records locks it last.
CREATE TABLE audit_head (
  id   INTEGER NOT NULL PRIMARY KEY,
  size INTEGER NOT NULL,
  edge BLOB NOT NULL -- hashes of the complete subtrees, the largest first
) STRICT;
INSERT INTO audit_head (id, size, edge) VALUES (1, 0, x'');

CREATE TABLE audit_checkpoints (
  size INTEGER NOT NULL PRIMARY KEY,
  at   INTEGER NOT NULL,
  note TEXT NOT NULL
) STRICT;

-- The key that signs checkpoints, sealed.
CREATE TABLE audit_key (
  id       INTEGER NOT NULL PRIMARY KEY,
  data_key BLOB NOT NULL,
  private  BLOB NOT NULL
) STRICT;
