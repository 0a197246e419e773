-- Alarms that are posted to --alarm-url; see db/alarm_posts.go.
CREATE TABLE alarm_posts (
  seq      BIGINT NOT NULL PRIMARY KEY,
  due      BIGINT NOT NULL DEFAULT 0, -- of the next attempt; while one is made, the end of its lease
  attempts BIGINT NOT NULL DEFAULT 0,
  done     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX alarm_posts_due ON alarm_posts (due, seq) WHERE done = 0;
