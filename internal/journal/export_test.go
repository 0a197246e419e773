package journal

import "context"

// Walk reads the whole log again, in parts of that many records.
func (l *Log) Walk(ctx context.Context, step int64) error {
	w := walker{l: l}
	for {
		if ended, err := w.step(ctx, step); ended || err != nil {
			return err
		}
	}
}
