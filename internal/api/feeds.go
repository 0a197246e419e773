package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"countersign/client"
	"countersign/internal/db"
)

// Page selects a page of a list.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"most entries to answer, 1 to 1,000"`
	Cursor string `query:"cursor" maxLength:"2000" doc:"the member next of the previous page, at most 2,000 characters; absent: the first page"`
}

var errCursor = Invalid(At("query.cursor", "is not a cursor of this list"))

// List returns the handler of a list that a filter selects. read returns a page of it, and the cursor after that page,
// empty at the end. It returns db.ErrInvalid for what is not a cursor of the list: everything else has been checked.
func List[Filter, Row any](read func(c *Call, f Filter, limit int, cursor string) (list []Row, next string,
	err error)) Handler {
	type query struct {
		Filter Filter
		Page
	}
	return Handle(func(c *Call, q query, _ None) (client.List[Row], error) {
		list, next, err := read(c, q.Filter, q.Limit, q.Cursor)
		if errors.Is(err, db.ErrInvalid) && q.Cursor != "" {
			err = errCursor
		}
		out := client.List[Row]{Items: OrEmpty(list)}
		if next != "" {
			out.Next = &next
		}
		return out, err
	})
}

// Rows is List for rows whose cursor is a number. 0 stands for the first page, and for no next one.
func Rows[Filter, Row any](read func(ctx context.Context, f Filter, limit int, before int64) ([]Row, int64,
	error)) Handler {
	return List(func(c *Call, f Filter, limit int, cursor string) ([]Row, string, error) {
		return numbered(cursor, func(before int64) ([]Row, int64, error) { return read(c.R.Context(), f, limit, before) })
	})
}

// numbered returns what read returns of a list whose cursor is a number.
func numbered[Row any](cursor string, read func(before int64) ([]Row, int64, error)) ([]Row, string, error) {
	before, err := int64(0), error(nil)
	if cursor != "" {
		if before, err = strconv.ParseInt(cursor, 10, 64); err != nil || before <= 0 {
			return nil, "", errCursor
		}
	}
	list, after, err := read(before)
	if after == 0 {
		return list, "", err
	}
	return list, strconv.FormatInt(after, 10), err
}

// OrEmpty returns list, or an empty list for nil, whose JSON would be null.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Feed selects a part of a feed.
type Feed struct {
	After int64           `query:"after" minimum:"0" default:"0" doc:"seq of the last entry that the reader has; 0: none"`
	Limit int             `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"most entries to answer, 1 to 1,000"`
	Wait  client.Duration `query:"wait" doc:"how long to wait if there is no entry, 0s to 60s; absent: not at all"`
}

// FeedReader reads a feed of rows T for calls.
type FeedReader[T any] struct {
	// Name is the feed's name in the database Rows. Both are required.
	Name string
	Rows *db.DB
	// Watch returns the channel that wakes a waiting reader. Nil: the reader only polls every two seconds.
	Watch func() (wake <-chan struct{}, stop func())
	// Read returns entries after a number, and the number to continue after. That number counts only if it is larger
	// than the last entry's, which Seq returns. Both functions are required.
	Read func(ctx context.Context, after int64, limit int) (list []T, next int64, err error)
	Seq  func(T) int64
	// Check can refuse entries that were read. Nil: none are refused.
	Check func(ctx context.Context, list []T) error
}

// Answer returns a part of the feed. If there is no entry, it waits for as long as the call asks. next is the number
// to continue after.
func (f FeedReader[T]) Answer(c *Call, q Feed) (list []T, next int64, err error) {
	var wake <-chan struct{}
	if f.Watch != nil {
		woken, stop := f.Watch()
		defer stop()
		wake = woken
	}
	next = q.After
	err = c.Follow(time.Duration(q.Wait), wake, func(ctx context.Context) (bool, error) {
		read, after, err := f.Read(ctx, q.After, q.Limit)
		if err == nil {
			first := int64(0)
			if len(read) > 0 {
				first = f.Seq(read[0])
			}
			err = f.Rows.CheckPage(ctx, f.Name, q.After, first)
		}
		if err == nil && f.Check != nil {
			err = f.Check(ctx, read)
		}
		if err != nil {
			return false, err
		}
		list, next = read, max(next, after)
		for _, v := range read {
			next = max(next, f.Seq(v))
		}
		return len(list) > 0, nil
	})
	return list, next, err
}

// maxWait is the longest wait of a feed's reader. A waiting reader also polls every pollEvery, because a wake-up
// between nodes can get lost.
const (
	maxWait       = time.Minute
	pollEvery     = 2 * time.Second
	answerTimeout = 30 * time.Second // to write an answer after the wait
)

// Follow calls read until it finds something, wait (at most a minute) has passed, or the end stops. If nothing is
// found, the answer is empty. Subscribe to wake before calling Follow, or a change in between is missed. A nil wake
// is never ready.
func (c *Call) Follow(wait time.Duration, wake <-chan struct{},
	read func(context.Context) (found bool, err error)) error {
	if wait < 0 || wait > maxWait {
		return Invalid(At("query.wait", "is not between 0s and 60s"))
	}
	found, err := read(c.R.Context())
	if found || err != nil || wait == 0 {
		return err
	}
	c.stopRead() // waiting reads nothing
	ctx := c.R.Context()
	// The server's own time-outs assume answers that do not wait.
	c.deadline = true
	_ = http.NewResponseController(c.W).SetWriteDeadline(time.Now().Add(wait + answerTimeout))
	over := time.NewTimer(wait)
	defer over.Stop()
	look := time.NewTicker(pollEvery)
	defer look.Stop()
	for {
		select {
		case <-wake:
		case <-look.C:
		case <-over.C:
			return nil
		case <-c.a.stopping.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		// The token may be revoked meanwhile.
		if err := c.checkToken(true); err != nil {
			return err
		}
		if err := c.beginRead(); err != nil {
			return err
		}
		found, err := read(c.R.Context())
		c.stopRead()
		if found || err != nil {
			return err
		}
	}
}
