-- What people search deposits and orders by. Members of a deposit may be longer than an
-- index can hold, so only their first 64 characters are indexed.
CREATE INDEX deposits_tracking ON deposits (substr(tracking_id, 1, 64), seq);
CREATE INDEX deposits_tx ON deposits (substr(tx_id, 1, 64), seq);
CREATE INDEX deposits_user ON deposits (substr(tenant_user_id, 1, 64), seq);
CREATE INDEX orders_address ON orders (address, seq);
