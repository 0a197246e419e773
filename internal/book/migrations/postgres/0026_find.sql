-- oldest: 23
-- What people search deposits and orders by, beside what they had. Texts may be longer than
-- an index can hold, so only their first 64 characters are indexed.
CREATE INDEX deposits_address ON deposits (substr(to_address, 1, 64), seq);
CREATE INDEX orders_tx ON orders (substr(tx_id, 1, 64), seq) WHERE tx_id <> '';
