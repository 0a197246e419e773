-- The merchant's tables, which a database that was made before has, go. They are
-- empty: db.Open refuses to begin this where one of them holds a row.
DROP TABLE IF EXISTS inbox;
DROP TABLE IF EXISTS first_blocks;
DROP TABLE IF EXISTS deposits;
DROP TABLE IF EXISTS orders;
DROP TABLE IF EXISTS spent;
DROP TABLE IF EXISTS events;
DROP TABLE IF EXISTS cursors;
DROP TABLE IF EXISTS forwards;
DELETE FROM feeds WHERE name IN ('deposits', 'events', 'inbox');
