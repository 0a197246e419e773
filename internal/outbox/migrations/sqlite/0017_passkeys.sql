-- The passkeys of people, each of one token.
CREATE TABLE passkeys (
  id        TEXT NOT NULL PRIMARY KEY, -- of the credential
  token     TEXT NOT NULL,
  name      TEXT NOT NULL,
  public    BLOB NOT NULL, -- COSE key
  host      TEXT NOT NULL, -- that browsers bind it to
  counter   INTEGER NOT NULL,
  signed_in INTEGER NOT NULL DEFAULT 0, -- when the challenge of the last sign-in was made
  created   INTEGER NOT NULL,
  used      INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX passkeys_token ON passkeys (token, created);
