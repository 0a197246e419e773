-- Blocks of requests that were taken from services that do not bind, for 30 days
-- (PROTOCOL.md, B5 and B7). They replace the first blocks alone.
CREATE TABLE blocks (
  block TEXT NOT NULL PRIMARY KEY, -- half of the digest of the sealed block, in hexadecimal
  body  BLOB NOT NULL, -- half of the digest of the request that it first came in
  owner BLOB, -- what the block belongs to; NULL where nothing is known of that
  seen  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX blocks_seen ON blocks (seen);
INSERT INTO blocks (block, body, seen) SELECT lower(hex(substr(first, 1, 16))), substr(whole, 1, 16), seen FROM first_blocks;
DROP TABLE first_blocks;

-- 1: the blocks of the callback belong to another one.
ALTER TABLE inbox ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deposits ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0;
