package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"countersign/internal/jsonapi"
)

// all runs through a list page by page. After an error it ends.
func all[T any](page func(cursor string) ([]T, *string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			list, next, err := page(cursor)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, v := range list {
				if !yield(v, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			cursor = *next
		}
	}
}

// follow runs through a feed and waits at its end. It ends when ctx does,
// after which it gives no error, or with the first error.
func follow[T any](ctx context.Context, after int64, part func(FeedOptions) ([]T, int64, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			list, next, err := part(FeedOptions{After: after, Limit: 1000, Wait: 30 * time.Second})
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, v := range list {
				if !yield(v, nil) {
					return
				}
			}
			after = next
		}
	}
}

// LineError says that a line of StreamDeposits was not taken, and none after
// it. It wraps the *Problem.
type LineError struct {
	Line    int64 // from 1, in the order of the deposits given
	Problem *Problem
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Problem) }

// Unwrap gives the problem.
func (e *LineError) Unwrap() error { return e.Problem }

// StreamDeposits sends any number of deposits as lines and gives what became
// of each as soon as it is committed. A fault ends it with a *LineError, or
// with a *Problem where nothing was taken; what came before is in. deposits is
// read by another goroutine, which has ended when the iteration ends.
func (c *Client) StreamDeposits(ctx context.Context, deposits iter.Seq[NewDeposit]) iter.Seq2[Accepted, error] {
	return func(yield func(Accepted, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		body, w := io.Pipe()
		written := make(chan struct{})
		go func() {
			defer close(written)
			_ = w.CloseWithError(writeLines(w, deposits))
		}()
		defer func() {
			cancel()
			_ = body.CloseWithError(context.Canceled)
			<-written
		}()
		resp, err := c.base.Send(ctx, post, "/v1/deposits", jsonapi.TypeNDJSON, jsonapi.TypeNDJSON, body)
		if err != nil {
			yield(Accepted{}, err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		in := json.NewDecoder(resp.Body)
		for {
			var l AcceptedLine
			switch err := in.Decode(&l); {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(Accepted{}, fmt.Errorf("reading the answer: %w", err))
				return
			case l.Error != nil:
				yield(Accepted{}, &LineError{l.Line, l.Error})
				return
			}
			if !yield(Accepted{ID: l.ID, TrackingID: l.TrackingID, State: l.State, Duplicate: l.Duplicate}, nil) {
				return
			}
		}
	}
}

// writeLines hands over each line as it comes, for the deposits may trickle.
func writeLines(w io.Writer, deposits iter.Seq[NewDeposit]) error {
	for d := range deposits {
		if err := jsonapi.EncodeJSON(w, d); err != nil {
			return err
		}
	}
	return nil
}
