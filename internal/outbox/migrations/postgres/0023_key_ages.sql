-- Since when a merchant has each of its keys; 0: it has no such key. Of a merchant of an
-- earlier release: since it was made, which is the earliest that it can be.
ALTER TABLE merchants ADD COLUMN request_key_since BIGINT NOT NULL DEFAULT 0;
ALTER TABLE merchants ADD COLUMN response_key_since BIGINT NOT NULL DEFAULT 0;
ALTER TABLE merchants ADD COLUMN api_key_since BIGINT NOT NULL DEFAULT 0;
ALTER TABLE merchants ADD COLUMN callback_api_key_since BIGINT NOT NULL DEFAULT 0;
UPDATE merchants SET request_key_since = created, response_key_since = created, api_key_since = created, callback_api_key_since = created;
