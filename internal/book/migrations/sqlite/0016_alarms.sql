-- Who acknowledged an alarm, by name, and what was noted.
ALTER TABLE alarms ADD COLUMN acked_name TEXT NOT NULL DEFAULT '';
ALTER TABLE alarms ADD COLUMN acked_note TEXT NOT NULL DEFAULT '';

-- Lists of alarms by kind and state.
CREATE INDEX alarms_open ON alarms (seq) WHERE acked = 0;
CREATE INDEX alarms_acked ON alarms (seq) WHERE acked > 0;
CREATE INDEX alarms_kind ON alarms (kind, seq);
CREATE INDEX alarms_kind_open ON alarms (kind, seq) WHERE acked = 0;

-- Kept numbers: alarms/KIND of all alarms, alarms-open/KIND of those that nobody has
-- acknowledged.
INSERT INTO counts (name, n) SELECT 'alarms/' || kind, COUNT(*) FROM alarms GROUP BY kind;
INSERT INTO counts (name, n) SELECT 'alarms-open/' || kind, COUNT(*) FROM alarms WHERE acked = 0 GROUP BY kind;
