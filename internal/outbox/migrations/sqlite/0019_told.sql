-- What is known of a callback that is not accepted. 0: nothing more. 1: the database was
-- restored from a backup, after which the merchant may have been told of it. 2: the
-- merchant had accepted it, and it is sent once more because a person asked for it.
ALTER TABLE outbox ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
CREATE INDEX outbox_told ON outbox (told, id, merchant) WHERE told > 0;
