-- How long a confirmed withdrawal can be released, in milliseconds; 72 hours.
ALTER TABLE merchants ADD COLUMN release_within INTEGER NOT NULL DEFAULT 259200000;
-- From when on a confirmed withdrawal is not released any more. 0: it is not confirmed.
ALTER TABLE withdrawals ADD COLUMN release_by INTEGER NOT NULL DEFAULT 0;
-- Those that were confirmed before have that time from now on.
UPDATE withdrawals SET release_by = CAST(strftime('%s', 'now') AS INTEGER) * 1000 + 259200000 WHERE state = 'confirmed';
CREATE INDEX withdrawals_release_by ON withdrawals (release_by) WHERE state = 'confirmed';
