-- How many requests to the public listener were refused, by reason.
CREATE TABLE refusals (
  reason TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  count  BIGINT NOT NULL
);
