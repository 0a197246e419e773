-- The outbox of a wallet core: rows for countersign relay. docs/provider/relay.md describes them.
-- For PostgreSQL 12 and later. Applying it again changes nothing.
BEGIN;
DO $$ BEGIN PERFORM pg_advisory_xact_lock(7161923, 1); END $$;

-- The merchant that a body names; empty if it names none that there can be. It never
-- fails, so that no text in a body makes the core's transaction fail.
CREATE OR REPLACE FUNCTION countersign_merchant(body json) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
	named text;
BEGIN
	named := body ->> 'merchant';
	RETURN CASE WHEN named ~ '^[a-z0-9_-]{1,64}$' THEN named ELSE '' END;
EXCEPTION WHEN OTHERS THEN -- text that PostgreSQL cannot hold, such as \u0000
	RETURN '';
END $$;

CREATE TABLE IF NOT EXISTS countersign_outbox (
	id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	kind     text        NOT NULL CHECK (kind IN ('deposit', 'withdrawal', 'address', 'release', 'waiting', 'outcome', 'cancel')),
	body     json        NOT NULL, -- json, not jsonb: it keeps the text as it was written
	created  timestamptz NOT NULL DEFAULT clock_timestamp(),
	merchant text        GENERATED ALWAYS AS (countersign_merchant(body)) STORED,
	refused  timestamptz,          -- when the service refused it; null: it waits
	problem  json                  -- why, as the service said it; also of a row about a withdrawal that waits
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX IF NOT EXISTS countersign_outbox_waiting ON countersign_outbox (merchant, id) WHERE refused IS NULL;
CREATE INDEX IF NOT EXISTS countersign_outbox_refused ON countersign_outbox (id) WHERE refused IS NOT NULL;

CREATE OR REPLACE FUNCTION countersign_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NOTIFY countersign_outbox;
	RETURN NULL;
END $$;

DO $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'countersign_outbox'::regclass AND tgname = 'countersign_outbox_notify') THEN
		CREATE TRIGGER countersign_outbox_notify AFTER INSERT ON countersign_outbox
			FOR EACH STATEMENT EXECUTE FUNCTION countersign_outbox_notify();
	END IF;
END $$;
COMMIT;
