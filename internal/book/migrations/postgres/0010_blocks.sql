-- Blocks of requests that were taken from services that do not bind, for 30 days
-- (PROTOCOL.md, B5 and B7). They replace the first blocks alone.
CREATE TABLE blocks (
  block TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- half of the digest of the sealed block, in hexadecimal
  body  BYTEA NOT NULL, -- half of the digest of the request that it first came in
  owner BYTEA, -- what the block belongs to; NULL where nothing is known of that
  seen  BIGINT NOT NULL
);
CREATE INDEX blocks_seen ON blocks (seen);
INSERT INTO blocks (block, body, seen) SELECT encode(substr(first, 1, 16), 'hex'), substr(whole, 1, 16), seen FROM first_blocks;
DROP TABLE first_blocks;

-- 1: the blocks of the callback belong to another one.
ALTER TABLE inbox ADD COLUMN suspect BIGINT NOT NULL DEFAULT 0;
ALTER TABLE deposits ADD COLUMN suspect BIGINT NOT NULL DEFAULT 0;
