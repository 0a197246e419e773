package reconcile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// paid returns what both sides must agree on for a withdrawal: the sum and the address. It is empty if no merchant has
// confirmed them.
func paid(w client.Withdrawal) string {
	if w.Details == nil {
		return ""
	}
	return book.SumOf(w.Details.Symbol, w.Details.Amount) + " " + w.Details.Address
}

// hasPermit reports whether w has a permit and did not fail.
func hasPermit(w client.Withdrawal) bool {
	return w.Released != 0 && w.State != client.WithdrawalFailed
}

// service holds the deposits and withdrawals of a service, from its database or its API.
type service interface {
	// deposits calls fn for every deposit. A database also has those that were purged, without ID and amount.
	deposits(ctx context.Context, merchant string, fn func(client.SentDeposit) error) error
	withdrawals(ctx context.Context, merchant string, fn func(client.Withdrawal) error) error
	// repeat sends an accepted deposit again.
	repeat(ctx context.Context, id string, now db.Millis) error
}

// local is a service's database.
type local struct{ o *outbox.Outbox }

func (s local) deposits(ctx context.Context, merchant string, fn func(client.SentDeposit) error) error {
	if err := s.o.EachDeposit(ctx, merchant, fn); err != nil {
		return err
	}
	return outbox.EachPurgedDeposit(ctx, s.o, func(of, id string) error {
		if merchant != "" && merchant != of {
			return nil
		}
		return fn(client.SentDeposit{Merchant: of, TrackingID: id, State: client.CallbackAccepted})
	})
}

func (s local) withdrawals(ctx context.Context, merchant string, fn func(client.Withdrawal) error) error {
	return s.o.EachWithdrawal(ctx, func(w outbox.Withdrawal) error {
		if merchant != "" && w.Merchant != merchant {
			return nil
		}
		return fn(w.Withdrawal)
	})
}

func (s local) repeat(ctx context.Context, id string, now db.Millis) error {
	_, err := s.o.Repeat(ctx, id, now)
	return err
}

// remote is a service's API.
type remote struct{ api *client.Service }

func (s remote) deposits(ctx context.Context, merchant string, fn func(client.SentDeposit) error) error {
	return each(ctx, "deposits of the service", s.api.Deposits, client.DepositFilter{Merchant: merchant}, fn)
}

func (s remote) withdrawals(ctx context.Context, merchant string, fn func(client.Withdrawal) error) error {
	return each(ctx, "withdrawals of the service", s.api.Withdrawals, client.WithdrawalFilter{Merchant: merchant}, fn)
}

// each calls fn for every item of a list of an API.
func each[F, T any](ctx context.Context, name string, list func(context.Context, F, client.PageOptions) (client.List[T], error),
	filter F, fn func(T) error) error {
	for v, err := range client.All(ctx, list, filter) {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := fn(v); err != nil {
			return err
		}
	}
	return nil
}

func (s remote) repeat(ctx context.Context, id string, _ db.Millis) error {
	_, err := s.api.ResendCallback(ctx, id, client.ResendOne{Accepted: true})
	return err
}

// Remote compares a service's API with a file or a gateway. It settles nothing of a restore, which needs the database;
// Settle only sends again what was not booked.
func Remote(ctx context.Context, api *client.Service, c Config) error {
	if c.Executed != "" {
		return errors.New("--executed is compared with the database: leave out --service")
	}
	if err := c.checkFiles(); err != nil {
		return err
	}
	return c.steady(ctx, api, func() error {
		_, err := c.compare(ctx, remote{api})
		return errors.Join(err, c.added(ctx, remote{api}))
	})
}

// steady returns an error if an end whose API is asked was restored while do ran: part of what was read would be of
// another database.
func (c Config) steady(ctx context.Context, api *client.Service, do func() error) error {
	ends := map[string]func(context.Context) (client.Epoch, error){}
	if api != nil {
		ends["service"] = api.Epoch
	}
	if c.There != nil {
		ends["gateway"] = c.There.Epoch
	}
	began := map[string]int64{}
	for _, end := range slices.Sorted(maps.Keys(ends)) {
		e, err := ends[end](ctx)
		if err != nil {
			return fmt.Errorf("epoch of the %s: %w", end, err)
		}
		if c.Settle && e.Open {
			return fmt.Errorf("the %s was restored and is not reconciled: first countersign reconcile with its own database and --settle", end)
		}
		began[end] = e.Epoch
		if c.Epoch != nil {
			c.Epoch(end, e)
		}
	}
	if err := do(); err != nil {
		return err
	}
	for end, ask := range ends {
		if e, err := ask(ctx); err != nil {
			return fmt.Errorf("epoch of the %s: %w", end, err)
		} else if e.Epoch != began[end] {
			return fmt.Errorf("the %s was restored meanwhile: begin again", end)
		}
	}
	return nil
}

// spool writes the deposits and orders of the gateway to a new file, which can be read twice.
func (c Config) spool(ctx context.Context) (path string, err error) {
	f, err := os.CreateTemp("", "countersign-reconcile")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	put := func(l Line) error { return json.NewEncoder(w).Encode(l) }
	if err := eachDeposit(ctx, c.There, client.DepositSearch{}, put); err != nil {
		return f.Name(), err
	}
	err = each(ctx, "orders of the gateway", c.There.Orders, client.OrderFilter{}, func(o client.Order) error {
		return put(lineOf(o))
	})
	if err != nil {
		return f.Name(), err
	}
	return f.Name(), w.Flush()
}

func eachDeposit(ctx context.Context, api *client.Gateway, f client.DepositSearch, put func(Line) error) error {
	return each(ctx, "deposits of the gateway", api.SearchDeposits, f, func(d client.DepositEntry) error {
		return put(Line{TrackingID: d.TrackingID, Symbol: d.Symbol, Amount: d.Amount, Is: waiting(d)})
	})
}

// waiting returns waits for a deposit that does not count, except one that reconcile decided on: the application booked
// that before a restore.
func waiting(d client.DepositEntry) flags {
	if d.State == client.DepositHeld || d.State == client.DepositRejected && d.DecidedBy != book.ByReconcile {
		return waits
	}
	return 0
}

func lineOf(o client.Order) Line {
	l := Line{CallBackID: o.CallBackID, Address: o.Address, Symbol: o.Symbol, Amount: o.Amount}
	if o.Confirmed != 0 {
		l.Is |= confirmed
	}
	l.Is |= endOf(o.State)
	return l
}

func endOf(s client.OrderState) flags {
	switch s {
	case client.OrderExecuted:
		return executed
	case client.OrderEnded, client.OrderDeclined, client.OrderCancelled, client.OrderExpired, client.OrderUnknown:
		return ended
	}
	return 0
}
