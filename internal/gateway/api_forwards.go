package gateway

import (
	"bytes"

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

// forwardBody returns the id and the body of the POST of f. The id is the same in every attempt.
func forwardBody(f book.Forward) (id string, body []byte, err error) {
	var b bytes.Buffer
	if f.Feed == client.FeedOfEvents {
		err = api.EncodeJSON(&b, client.ForwardedEvent{Type: f.Event.Kind, Timestamp: f.Event.At, Data: f.Event})
		return book.ForwardID(f.Feed, f.Seq), b.Bytes(), err
	}
	d := book.AsTaken(f.Deposit) // whatever was decided meanwhile: every attempt says the same
	err = api.EncodeJSON(&b, client.ForwardedDeposit{Type: client.DepositMessage("deposit." + d.State), Timestamp: d.Taken, Data: d})
	return book.ForwardID(f.Feed, f.Seq), b.Bytes(), err
}
