-- Attempts that the merchant held since the callback's schedule began.
ALTER TABLE outbox ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
