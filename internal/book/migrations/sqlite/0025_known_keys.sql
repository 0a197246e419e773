-- oldest: 23
-- Since when the keys are there that no other table has, by kind and fingerprint.
CREATE TABLE known_keys (
  kind        TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  since       INTEGER NOT NULL,
  PRIMARY KEY (kind, fingerprint)
) STRICT, WITHOUT ROWID;
