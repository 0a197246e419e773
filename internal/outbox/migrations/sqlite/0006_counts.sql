-- Kept numbers of rows; see db/counts.go. callbacks/LANE is all callbacks of a lane,
-- withdrawals/STATE all withdrawals in a state.
CREATE TABLE counts (
  name TEXT NOT NULL PRIMARY KEY,
  n    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO counts (name, n)
SELECT 'callbacks/notify', COALESCE(SUM(in_flight + accepted + refused + exhausted + cancelled), 0)
  + (SELECT COUNT(*) FROM outbox WHERE state = 'pending' AND lane = 0) FROM lanes WHERE lane = 0;
INSERT INTO counts (name, n)
SELECT 'callbacks/withdraw', COALESCE(SUM(in_flight + accepted + refused + exhausted + cancelled), 0)
  + (SELECT COUNT(*) FROM outbox WHERE state = 'pending' AND lane = 1) FROM lanes WHERE lane = 1;
INSERT INTO counts (name, n) SELECT 'withdrawals/' || state, COUNT(*) FROM withdrawals GROUP BY state;
