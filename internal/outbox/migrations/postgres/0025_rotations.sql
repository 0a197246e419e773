-- oldest: 23
-- The second set of keys of a merchant whose keys are being replaced: the newer one until
-- it seals, then the older one. Times as in merchants; activated 0: the newer one does not
-- seal yet. overlap: ms after that until the older one ends.
CREATE TABLE rotations (
  merchant             TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  staged               BIGINT NOT NULL,
  activated            BIGINT NOT NULL,
  overlap              BIGINT NOT NULL,
  fingerprint          TEXT NOT NULL,
  response_fingerprint TEXT NOT NULL,
  request_key_since      BIGINT NOT NULL,
  response_key_since     BIGINT NOT NULL,
  api_key_since          BIGINT NOT NULL,
  callback_api_key_since BIGINT NOT NULL,
  secret_version       BIGINT NOT NULL,
  data_key             BYTEA NOT NULL,
  api_key              BYTEA NOT NULL,
  callback_api_key     BYTEA NOT NULL,
  request_key          BYTEA NOT NULL,
  response_key         BYTEA NOT NULL
);
-- Since when the keys are there that no other table has, by kind and fingerprint.
CREATE TABLE known_keys (
  kind        TEXT COLLATE "C" NOT NULL,
  fingerprint TEXT COLLATE "C" NOT NULL,
  since       BIGINT NOT NULL,
  PRIMARY KEY (kind, fingerprint)
);
