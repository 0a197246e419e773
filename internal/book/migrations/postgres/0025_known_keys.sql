-- oldest: 23
-- Since when the keys are there that no other table has, by kind and fingerprint.
CREATE TABLE known_keys (
  kind        TEXT COLLATE "C" NOT NULL,
  fingerprint TEXT COLLATE "C" NOT NULL,
  since       BIGINT NOT NULL,
  PRIMARY KEY (kind, fingerprint)
);
