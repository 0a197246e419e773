-- When and by which token an alarm was acknowledged; 0: it was not.
ALTER TABLE alarms ADD COLUMN acked BIGINT NOT NULL DEFAULT 0;
ALTER TABLE alarms ADD COLUMN acked_by TEXT NOT NULL DEFAULT '';
