-- oldest: 23
-- The second set of keys of a merchant whose keys are being replaced: the newer one until
-- it seals, then the older one. Times as in merchants; activated 0: the newer one does not
-- seal yet. overlap: ms after that until the older one ends.
CREATE TABLE rotations (
  merchant             TEXT NOT NULL PRIMARY KEY,
  staged               INTEGER NOT NULL,
  activated            INTEGER NOT NULL,
  overlap              INTEGER NOT NULL,
  fingerprint          TEXT NOT NULL,
  response_fingerprint TEXT NOT NULL,
  request_key_since      INTEGER NOT NULL,
  response_key_since     INTEGER NOT NULL,
  api_key_since          INTEGER NOT NULL,
  callback_api_key_since INTEGER NOT NULL,
  secret_version       INTEGER NOT NULL,
  data_key             BLOB NOT NULL,
  api_key              BLOB NOT NULL,
  callback_api_key     BLOB NOT NULL,
  request_key          BLOB NOT NULL,
  response_key         BLOB NOT NULL
) STRICT, WITHOUT ROWID;
-- Since when the keys are there that no other table has, by kind and fingerprint.
CREATE TABLE known_keys (
  kind        TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  since       INTEGER NOT NULL,
  PRIMARY KEY (kind, fingerprint)
) STRICT, WITHOUT ROWID;
