-- Attempts that the merchant held since the callback's schedule began.
ALTER TABLE outbox ADD COLUMN held BIGINT NOT NULL DEFAULT 0;
