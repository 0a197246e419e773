-- oldest: 23
-- By which people search: the user that a callback is about, and the address that what it
-- tells of goes to. Callbacks that an earlier release took have neither.
ALTER TABLE callbacks ADD COLUMN tenant_user_id TEXT NOT NULL DEFAULT '';
ALTER TABLE callbacks ADD COLUMN address TEXT NOT NULL DEFAULT '';
CREATE INDEX callbacks_user ON callbacks (tenant_user_id, id, merchant) WHERE tenant_user_id <> '';
CREATE INDEX callbacks_address ON callbacks (address, id, merchant) WHERE address <> '';

CREATE INDEX withdrawals_user ON withdrawals (tenant_user_id, id, merchant);
CREATE INDEX withdrawals_tx ON withdrawals (tx_id, id, merchant) WHERE tx_id <> '';
-- The address that was confirmed, or else the one that was ordered.
CREATE INDEX withdrawals_address ON withdrawals ((CASE WHEN confirmed_address <> '' THEN confirmed_address ELSE ordered_address END), id, merchant);

-- Deleted merchants are few, and are looked for with each batch of new callbacks.
CREATE INDEX merchants_deleted ON merchants (id) WHERE state = 'deleted';
