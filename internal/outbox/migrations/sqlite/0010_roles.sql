-- Who may do what. merchants: ids that the token is bound to, with a space between;
-- empty: all. maker: the token that made it. root: where it comes from; tokens of one
-- root do not decide on what each other propose. expires 0: never.
ALTER TABLE tokens ADD COLUMN merchants TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN maker TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN root TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN expires INTEGER NOT NULL DEFAULT 0;
UPDATE tokens SET root = id;

-- The roles of before included each other. Each token keeps what its holder needs.
UPDATE tokens SET role = 'admin' WHERE role = 'operator';
UPDATE tokens SET role = 'core' WHERE role = 'ingest';

-- The parts of the feeds that a bound token reads.
CREATE INDEX decisions_of ON decisions (merchant, seq);
CREATE INDEX alarms_of ON alarms (merchant, seq);
