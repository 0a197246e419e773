-- Up to which entry each feed was handed to the forwarding. Entries have a row in
-- forwards from then until the application has them. In a database of an earlier
-- release, which gave each entry its row at once or did not forward, that is the last
-- entry.
CREATE TABLE forwarding (
  feed  INTEGER NOT NULL PRIMARY KEY, -- 0 deposits, 1 events
  seq   INTEGER NOT NULL,
  begun INTEGER NOT NULL DEFAULT 0, -- 0: a gateway that forwards has not been started yet
  asked TEXT NOT NULL DEFAULT '' -- the value of --forward-from that was applied last
) STRICT;
INSERT INTO forwarding (feed, seq) SELECT 0, last_seq FROM feeds WHERE name = 'deposits';
INSERT INTO forwarding (feed, seq) SELECT 1, last_seq FROM feeds WHERE name = 'events';

ALTER TABLE forwards ADD COLUMN sending INTEGER NOT NULL DEFAULT 0; -- 1: due ends the lease of an attempt
ALTER TABLE forwards ADD COLUMN skipped INTEGER NOT NULL DEFAULT 0; -- when a person gave it up; 0: nobody did
ALTER TABLE forwards ADD COLUMN skipped_by TEXT NOT NULL DEFAULT ''; -- the token
ALTER TABLE forwards ADD COLUMN skip_reason TEXT NOT NULL DEFAULT '';
CREATE INDEX forwards_skipped ON forwards (feed, seq) WHERE skipped > 0;
