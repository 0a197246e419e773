-- The token that ordered; empty for orders of earlier releases.
ALTER TABLE orders ADD COLUMN ordered_by TEXT NOT NULL DEFAULT '';
