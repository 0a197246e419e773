
-- Decisions and permits of the service, for countersign relay --decisions.
BEGIN;
DO $$ BEGIN PERFORM pg_advisory_xact_lock(7161923, 1); END $$;

CREATE TABLE IF NOT EXISTS countersign_decisions (
	seq          bigint      PRIMARY KEY, -- in the service's feed of decisions; grows, may have gaps
	merchant     text        NOT NULL,
	call_back_id text        NOT NULL,
	withdrawal   text        NOT NULL,    -- the service's id, which the release needs
	decision     text        NOT NULL,    -- confirmed, declined, expired or cancelled
	body         json        NOT NULL,    -- the withdrawal as GET /v1/decisions gave it
	written      timestamptz NOT NULL DEFAULT clock_timestamp(),
	UNIQUE (merchant, call_back_id)
);

-- Permits that rows of kind release asked for. Who reads this table can report outcomes.
CREATE TABLE IF NOT EXISTS countersign_permits (
	merchant     text        NOT NULL,
	call_back_id text        NOT NULL,
	withdrawal   text        NOT NULL, -- the service's id
	claim        text        NOT NULL, -- that the row named
	permit       text        NOT NULL, -- that the row with the outcome must name
	body         json        NOT NULL, -- details: execute exactly these; withdrawal: as it was then
	note         text        NOT NULL DEFAULT '', -- the permit, signed by the service: a signer checks it without the API
	answer       json,                 -- what the merchant signed, for the signer as well; null: it does not sign
	written      timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (merchant, call_back_id)
);

-- The last entry of the feed that was read.
CREATE TABLE IF NOT EXISTS countersign_relay (
	one       boolean PRIMARY KEY DEFAULT true CHECK (one),
	decisions bigint  NOT NULL -- seq of the last entry that was written
);
INSERT INTO countersign_relay (decisions) VALUES (0) ON CONFLICT DO NOTHING;
COMMIT;
