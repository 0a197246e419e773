-- Members of a deposit that the other columns do not show as they were sent, a
-- JSON object; empty if there is none.
ALTER TABLE deposits ADD COLUMN as_sent TEXT NOT NULL DEFAULT '';

-- The user of the order that was confirmed, if the service named none.
ALTER TABLE inbox ADD COLUMN reply_user TEXT NOT NULL DEFAULT '';
