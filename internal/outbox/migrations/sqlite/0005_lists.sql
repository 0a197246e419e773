-- Every list is read by an index in the list's order, newest first, whatever filter
-- selects. What is accepted at the first attempt is in few of these.

-- Waiting: pending and sending. Claims do not change settled.
CREATE INDEX outbox_waiting ON outbox (id, merchant) WHERE settled = 0;
-- Ended: refused, exhausted and cancelled. Not "state IN (…)": SQLite does not see that
-- it follows from one state.
DROP INDEX outbox_ended;
CREATE INDEX outbox_ended ON outbox (state, id, merchant) WHERE settled > 0;
-- Expressions, because for the columns SQLite would take the primary key or outbox_ended.
CREATE INDEX outbox_ended_of ON outbox ((merchant || ''), (state || ''), id) WHERE settled > 0;
CREATE INDEX callbacks_type_of ON callbacks (merchant, type, id) WHERE type <> 1;
CREATE INDEX withdrawals_state_of ON withdrawals (merchant, state, id);

DROP INDEX callbacks_tracking;
DROP INDEX callbacks_tx;
DROP INDEX callbacks_order;
CREATE INDEX callbacks_tracking ON callbacks (tracking_id, id, merchant) WHERE type <> 1; -- type 1: event_id
CREATE INDEX callbacks_tx ON callbacks (tx_id, id, merchant) WHERE tx_id <> '';
CREATE INDEX callbacks_order ON callbacks (call_back_id, id, merchant) WHERE call_back_id <> '';

CREATE INDEX tokens_created ON tokens (created, id);
CREATE INDEX lanes_broken ON lanes (merchant, lane) WHERE failures >= 5; -- BreakerThreshold
