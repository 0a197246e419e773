-- Every callback that was taken, in the order of seq, with gaps.
CREATE TABLE IF NOT EXISTS countersign_inbox (
	seq INTEGER PRIMARY KEY AUTOINCREMENT,
	entry BLOB NOT NULL UNIQUE,              -- SHA-256 of type, id and, of types 3, 5, 6 and 7, callBackId
	type INTEGER NOT NULL,                   -- of the callback
	id TEXT NOT NULL,                        -- trackingId, of type 2 callBackId
	callback TEXT NOT NULL,                  -- the callback as JSON, for people
	content BLOB NOT NULL,
	transfer BLOB,                           -- of type 1
	payment BLOB,                            -- likewise, with the amount
	ends BLOB,                               -- of types 3 and 5: entry of the question that they end
	tx_index INTEGER NOT NULL,               -- -1: not known
	duplicate INTEGER NOT NULL,              -- 1: a possible duplicate, credited only after a person has decided
	suspect INTEGER NOT NULL,                -- 1: perhaps joined from several, likewise
	claims INTEGER NOT NULL DEFAULT 0,
	lease_until INTEGER NOT NULL DEFAULT 0,  -- milliseconds since 1970
	mark INTEGER NOT NULL DEFAULT 0,         -- of the transaction that settles it
	settled INTEGER NOT NULL DEFAULT 0,      -- 1: reply is the answer for ever
	reply TEXT NOT NULL DEFAULT '',
	recorded INTEGER NOT NULL,               -- milliseconds since 1970
	ended INTEGER NOT NULL DEFAULT 0,        -- when it was settled
	review INTEGER NOT NULL DEFAULT 0,       -- 1: awaits a person (Inbox.Held), 2: credited, 3: rejected
	review_note TEXT NOT NULL DEFAULT '',    -- what the person said
	reviewed INTEGER NOT NULL DEFAULT 0      -- when
);
CREATE INDEX IF NOT EXISTS countersign_inbox_transfer ON countersign_inbox (transfer) WHERE transfer IS NOT NULL;
CREATE INDEX IF NOT EXISTS countersign_inbox_payment ON countersign_inbox (payment) WHERE payment IS NOT NULL;
CREATE INDEX IF NOT EXISTS countersign_inbox_ends ON countersign_inbox (ends) WHERE ends IS NOT NULL;
CREATE INDEX IF NOT EXISTS countersign_inbox_review ON countersign_inbox (seq) WHERE review = 1;

-- The blocks of requests of services that do not bind, for 30 days.
CREATE TABLE IF NOT EXISTS countersign_blocks (
	block BLOB PRIMARY KEY,
	body BLOB NOT NULL,
	owner BLOB NOT NULL,
	seen INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS countersign_blocks_seen ON countersign_blocks (seen);

-- Writing to it takes the lock of the database.
CREATE TABLE IF NOT EXISTS countersign_locks (n INTEGER PRIMARY KEY);
