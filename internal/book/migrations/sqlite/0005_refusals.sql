-- How many requests to the public listener were refused, by reason.
CREATE TABLE refusals (
  reason TEXT NOT NULL PRIMARY KEY,
  count  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
