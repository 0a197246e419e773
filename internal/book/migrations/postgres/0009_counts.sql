-- Kept numbers of rows; see db/counts.go. inbox/open is callbacks without a final
-- answer, deposits/held possible duplicates, forwards what is still to be forwarded,
-- orders/STATE all orders in a state.
CREATE TABLE counts (
  name TEXT COLLATE "C" NOT NULL,
  n    BIGINT NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

INSERT INTO counts (name, n) SELECT 'inbox/open', COUNT(*) FROM inbox WHERE settled = 0;
INSERT INTO counts (name, n) SELECT 'deposits/held', COUNT(*) FROM deposits WHERE state <> 'taken' AND state = 'held';
INSERT INTO counts (name, n) SELECT 'forwards', COUNT(*) FROM forwards;
INSERT INTO counts (name, n) SELECT 'orders/' || state, COUNT(*) FROM orders GROUP BY state;
