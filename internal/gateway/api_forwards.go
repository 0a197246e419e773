package gateway

import (
	"bytes"
	"context"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
)

// mostFailed is how many failed entries the state of the forwarding shows.
const mostFailed = 100

func (a *server) forwarding(c *api.Call, _ api.None, _ api.None) (client.Forwarding, error) {
	out, err := a.lists.Forwarding(c.R.Context())
	if err != nil {
		return out, err
	}
	failed, err := a.lists.FailedForwards(c.R.Context(), mostFailed)
	out.On, out.Failed = a.c.Forward.URL != "", api.OrEmpty(failed)
	return out, err
}

func (a *server) retryForwards(c *api.Call, _ api.None, _ api.None) (client.RetriedForwards, error) {
	n, err := a.book.RetryForwards(c.R.Context(), c.Now)
	return client.RetriedForwards{Retried: n}, err
}

// forwardBody returns the body of the POST of f. Every attempt has the same.
func forwardBody(ctx context.Context, b *book.Book, f book.Forward) ([]byte, error) {
	var message any
	if f.Feed == client.FeedOfEvents {
		e, err := b.Event(ctx, f.Seq)
		if err != nil {
			return nil, err
		}
		message = client.ForwardedEvent{Type: e.Kind, Timestamp: e.At, Data: e}
	} else {
		d, err := b.Deposit(ctx, f.Seq)
		if err != nil {
			return nil, err
		}
		d = book.AsTaken(d) // whatever was decided meanwhile
		message = client.ForwardedDeposit{Type: client.DepositMessage("deposit." + d.State), Timestamp: d.Taken, Data: d}
	}
	var out bytes.Buffer
	err := api.EncodeJSON(&out, message)
	return out.Bytes(), err
}
