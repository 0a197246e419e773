-- The freeze of the whole service; no row: it is not frozen. Decisions and releases
-- look at it and at their merchant in their own transaction.
CREATE TABLE frozen (
  one      INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  at       INTEGER NOT NULL,
  by_token TEXT NOT NULL,
  reason   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Why a confirmed withdrawal was blocked for ever, and by which token.
ALTER TABLE withdrawals ADD COLUMN blocked_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE withdrawals ADD COLUMN blocked_by TEXT NOT NULL DEFAULT '';
