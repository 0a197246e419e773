-- The passkeys of people, each of one token.
CREATE TABLE passkeys (
  id        TEXT NOT NULL PRIMARY KEY, -- of the credential
  token     TEXT NOT NULL,
  name      TEXT NOT NULL,
  public    BYTEA NOT NULL, -- COSE key
  host      TEXT NOT NULL, -- that browsers bind it to
  counter   BIGINT NOT NULL,
  signed_in BIGINT NOT NULL DEFAULT 0, -- when the challenge of the last sign-in was made
  created   BIGINT NOT NULL,
  used      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX passkeys_token ON passkeys (token, created);
