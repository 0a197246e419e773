-- The token whose call added a callback; empty: no call did, or it is older than this column.
ALTER TABLE callbacks ADD COLUMN added_by TEXT NOT NULL DEFAULT '';
