package db

import "time"

// Millis is a time in milliseconds since 1970 UTC.
type Millis int64

// MillisOf rounds t down to a millisecond.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }

// Time is the time of m in UTC.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// Never is later than every due time.
const Never Millis = 1 << 62
