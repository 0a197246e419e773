-- Every callback that was taken, in the order of seq, with gaps. Texts are kept as bytes:
-- no collation, padding or character set changes or compares them.
CREATE TABLE IF NOT EXISTS countersign_inbox (
	seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
	entry BINARY(32) NOT NULL UNIQUE,           -- SHA-256 of type, id and, of types 3, 5, 6 and 7, callBackId
	type SMALLINT NOT NULL,                     -- of the callback
	id MEDIUMBLOB NOT NULL,                     -- trackingId, of type 2 callBackId
	callback MEDIUMBLOB NOT NULL,               -- the callback as JSON, for people
	content BINARY(32) NOT NULL,
	transfer BINARY(32),                        -- of type 1
	payment BINARY(32),                       -- likewise, with the amount
	ends BINARY(32),                          -- of types 3 and 5: entry of the question that they end
	tx_index BIGINT NOT NULL,                   -- -1: not known
	duplicate SMALLINT NOT NULL,                -- 1: a possible duplicate, credited only after a person has decided
	suspect SMALLINT NOT NULL,                  -- 1: perhaps joined from several, likewise
	claims BIGINT NOT NULL DEFAULT 0,
	lease_until BIGINT NOT NULL DEFAULT 0,      -- milliseconds since 1970
	mark BIGINT NOT NULL DEFAULT 0,             -- of the transaction that settles it
	settled SMALLINT NOT NULL DEFAULT 0,        -- 1: reply is the answer for ever
	reply MEDIUMBLOB NOT NULL,
	recorded BIGINT NOT NULL,                   -- milliseconds since 1970
	ended BIGINT NOT NULL DEFAULT 0,            -- when it was settled
	review SMALLINT NOT NULL DEFAULT 0,         -- 1: awaits a person (Inbox.Held), 2: credited, 3: rejected
	review_note MEDIUMBLOB,                     -- what the person said
	reviewed BIGINT NOT NULL DEFAULT 0,         -- when
	KEY countersign_inbox_transfer (transfer),
	KEY countersign_inbox_payment (payment),
	KEY countersign_inbox_ends (ends),
	KEY countersign_inbox_review (review, seq)
) ENGINE=InnoDB;

-- The blocks of requests of services that do not bind, for 30 days.
CREATE TABLE IF NOT EXISTS countersign_blocks (
	block BINARY(16) NOT NULL PRIMARY KEY,
	body BINARY(16) NOT NULL,
	owner BINARY(16) NOT NULL,
	seen BIGINT NOT NULL,
	KEY countersign_blocks_seen (seen)
) ENGINE=InnoDB;

-- Transactions about the same callback, transfer or block lock the same of these rows.
CREATE TABLE IF NOT EXISTS countersign_locks (n INTEGER NOT NULL PRIMARY KEY) ENGINE=InnoDB;
INSERT IGNORE INTO countersign_locks (n)
	SELECT a.n + 4 * b.n + 16 * c.n + 64 * d.n + 256 * e.n
	FROM (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS a
	CROSS JOIN (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS b
	CROSS JOIN (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS c
	CROSS JOIN (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS d
	CROSS JOIN (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS e;
