-- Kept numbers of rows; see db/counts.go. callbacks/LANE is all callbacks of a lane,
-- withdrawals/STATE all withdrawals in a state.
CREATE TABLE counts (
  name TEXT COLLATE "C" NOT NULL,
  n    BIGINT NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

INSERT INTO counts (name, n)
SELECT 'callbacks/notify', COALESCE(SUM(in_flight + accepted + refused + exhausted + cancelled), 0)
  + (SELECT COUNT(*) FROM outbox WHERE state = 'pending' AND lane = 0) FROM lanes WHERE lane = 0;
INSERT INTO counts (name, n)
SELECT 'callbacks/withdraw', COALESCE(SUM(in_flight + accepted + refused + exhausted + cancelled), 0)
  + (SELECT COUNT(*) FROM outbox WHERE state = 'pending' AND lane = 1) FROM lanes WHERE lane = 1;
INSERT INTO counts (name, n) SELECT 'withdrawals/' || state, COUNT(*) FROM withdrawals GROUP BY state;
