-- Every list is read by an index in the list's order, newest first.
DROP INDEX inbox_order;
DROP INDEX inbox_open;
CREATE INDEX inbox_order ON inbox (call_back_id, seq) WHERE call_back_id <> '';
CREATE INDEX inbox_open ON inbox (seq) WHERE settled = 0;
CREATE INDEX inbox_type ON inbox (type, seq) WHERE type <> 1;
CREATE INDEX tokens_created ON tokens (created, id);
