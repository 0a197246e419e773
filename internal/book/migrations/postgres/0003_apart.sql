-- The service's tables, which a database that was made before has, go. They are
-- empty: db.Open refuses to begin this where one of them holds a row.
DROP TABLE IF EXISTS lanes;
DROP TABLE IF EXISTS merchants;
DROP TABLE IF EXISTS callbacks;
DROP TABLE IF EXISTS outbox;
DROP TABLE IF EXISTS attempts;
DROP TABLE IF EXISTS withdrawals;
DROP TABLE IF EXISTS decisions;
DROP TABLE IF EXISTS open_failures;
DELETE FROM feeds WHERE name = 'decisions';
