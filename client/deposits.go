package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"countersign"
)

// NewDeposit is a deposit to report to the merchant.
type NewDeposit struct {
	Merchant      string             `json:"merchant" minLength:"1" maxLength:"64" doc:"id of the merchant, 1 to 64 characters"`
	TrackingID    string             `json:"trackingId" minLength:"1" maxLength:"200" doc:"identifies the deposit permanently, 1 to 200 characters: a request with the same trackingId repeats the deposit"`
	TenantUserID  string             `json:"tenantUserId" minLength:"1" maxLength:"200" doc:"the user in the merchant's system, 1 to 200 characters"`
	TxID          string             `json:"txId" minLength:"1" maxLength:"200" doc:"transaction on the chain, 1 to 200 characters"`
	ChainName     string             `json:"chainName" minLength:"1" maxLength:"64" doc:"the chain, 1 to 64 characters" example:"TRON"`
	Symbol        string             `json:"symbol" minLength:"1" maxLength:"64" doc:"the currency, 1 to 64 characters" example:"USDT"`
	Amount        countersign.Amount `json:"amount" doc:"in units of the currency: an exact decimal of at most 78 digits, without sign and exponent; kept as written"`
	FromAddress   string             `json:"fromAddress" maxLength:"200" doc:"sender, at most 200 characters; empty if the chain has none"`
	ToAddress     string             `json:"toAddress" minLength:"1" maxLength:"200" doc:"the user's deposit address, 1 to 200 characters"`
	RiskLevelFrom int64              `json:"riskLevelFrom" minimum:"0" maximum:"100" doc:"risk of the sender, 0 to 100"`
	RiskLevelTo   int64              `json:"riskLevelTo" minimum:"0" maximum:"100" doc:"risk of the receiver, 0 to 100"`
	TxIndex       int64              `json:"txIndex" minimum:"-1" maximum:"9007199254740991" doc:"number of the transfer in its transaction, 0 to 9007199254740991; -1: not given"`
	NewAddress    *string            `json:"newAddress,omitempty" maxLength:"200" doc:"member newAddress of the callback, at most 200 characters; absent: toAddress"`
	Business      int64              `json:"business,omitempty" minimum:"-9007199254740991" maximum:"9007199254740991" default:"0" doc:"member business of the callback, a whole number of at most 53 bits"`
}

// Accepted answers one deposit.
type Accepted struct {
	ID         string        `json:"id" doc:"id of the callback that tells the merchant"`
	TrackingID string        `json:"trackingId" doc:"of the deposit"`
	State      CallbackState `json:"state" doc:"state of the callback"`
	Duplicate  bool          `json:"duplicate" doc:"it exists already, with the same content"`
}

// AcceptedDeposits answers a request of one deposit or an array.
type AcceptedDeposits struct {
	Callbacks []Accepted `json:"callbacks" nullable:"false" doc:"one for each deposit, in the order of the request"`
}

// AcceptedLine is one line of the answer to deposits sent as lines. It accepts one
// line of the request; the last line may instead name the line at fault.
type AcceptedLine struct {
	Line       int64         `json:"line" minimum:"1" doc:"number of the line in the request, from 1"`
	ID         string        `json:"id,omitempty" doc:"id of the callback that tells the merchant"`
	TrackingID string        `json:"trackingId,omitempty" doc:"of the deposit"`
	State      CallbackState `json:"state,omitempty" doc:"state of the callback"`
	Duplicate  bool          `json:"duplicate,omitempty" doc:"it exists already, with the same content"`
	Error      *Problem      `json:"error,omitempty" doc:"what is wrong: this line and all after it were not accepted"`
}

// AddDeposits tells merchants of 1 to 1,000 deposits, all or nothing.
// StreamDeposits takes more.
func (s *Service) AddDeposits(ctx context.Context, list ...NewDeposit) ([]Accepted, error) {
	if list == nil {
		list = []NewDeposit{}
	}
	out, err := ask[AcceptedDeposits](ctx, &s.caller, http.MethodPost, "/v1/deposits", list)
	return out.Callbacks, err
}

// AddDepositsAsWritten is AddDeposits of objects that were written elsewhere. They are
// sent byte for byte but for white space, so the service checks what their writer wrote.
// Each must be valid JSON.
func (s *Service) AddDepositsAsWritten(ctx context.Context, list ...json.RawMessage) ([]Accepted, error) {
	if list == nil {
		list = []json.RawMessage{}
	}
	out, err := ask[AcceptedDeposits](ctx, &s.caller, http.MethodPost, "/v1/deposits", list)
	return out.Callbacks, err
}

// LineError names the line that ended StreamDeposits or StreamWithdrawals: it and all after it
// were not accepted. It wraps the *Problem.
type LineError struct {
	Line    int64 // from 1, in the order of what was given
	Problem *Problem
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Problem) }

// Unwrap gives the problem.
func (e *LineError) Unwrap() error { return e.Problem }

// StreamDeposits sends any number of deposits as lines and gives what became
// of each as soon as it is committed. A fault ends it with a *LineError, or
// with a *Problem where nothing was taken; what came before is in. The service ends
// it with a *LineError of status 408 after 10 minutes, and of 503 when it stops: go
// on with that deposit in another stream. deposits is read by another goroutine, which has ended when the
// iteration ends.
func (s *Service) StreamDeposits(ctx context.Context, deposits iter.Seq[NewDeposit]) iter.Seq2[Accepted, error] {
	return func(yield func(Accepted, error) bool) {
		lines := stream(ctx, s, "/v1/deposits", deposits, func(l AcceptedLine) (int64, *Problem) { return l.Line, l.Error })
		for l, err := range lines {
			if !yield(Accepted{ID: l.ID, TrackingID: l.TrackingID, State: l.State, Duplicate: l.Duplicate}, err) {
				return
			}
		}
	}
}

// stream sends items as lines to path and gives the lines of the answer. fault gives the number
// of a line of the answer, and what is wrong with it.
func stream[In, Line any](ctx context.Context, s *Service, path string, items iter.Seq[In], fault func(Line) (int64, *Problem)) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		var none Line
		ctx, cancel := context.WithCancel(ctx)
		body, w := io.Pipe()
		written := make(chan struct{})
		var unfit error // from encoding an item; read only after written is closed
		go func() {
			defer close(written)
			unfit = writeLines(w, items)
			_ = w.CloseWithError(unfit)
		}()
		stop := func() {
			cancel()
			_ = body.CloseWithError(context.Canceled)
			<-written
		}
		defer stop()
		fail := func(err error) {
			if stop(); unfit != nil {
				err = fmt.Errorf("writing the request: %w", unfit)
			}
			yield(none, err)
		}
		resp, err := s.send(ctx, http.MethodPost, path, typeNDJSON, body)
		if err != nil {
			fail(err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		in := json.NewDecoder(resp.Body)
		for {
			var l Line
			err := in.Decode(&l)
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				fail(fmt.Errorf("reading the answer: %w", err))
				return
			}
			if n, wrong := fault(l); wrong != nil {
				yield(none, &LineError{n, wrong})
				return
			}
			if !yield(l, nil) {
				return
			}
		}
	}
}

// writeLines writes each line as soon as it has it, because items may come
// slowly. It ends without an error if the reader has stopped.
func writeLines[In any](w io.Writer, items iter.Seq[In]) error {
	var line bytes.Buffer
	for item := range items {
		line.Reset()
		if err := writeJSON(&line, item); err != nil {
			return err
		}
		if _, err := w.Write(line.Bytes()); err != nil {
			return nil
		}
	}
	return nil
}

// ToldDeposit is a deposit at the service, with what became of telling it.
type ToldDeposit struct {
	ID         string             `json:"id" doc:"the service's id of the callback that tells of it; begins with the merchant's id"`
	Merchant   string             `json:"merchant" doc:"id of the merchant"`
	TrackingID string             `json:"trackingId" doc:"the service's id of the deposit"`
	Symbol     string             `json:"symbol" doc:"the currency"`
	Amount     countersign.Amount `json:"amount" doc:"in units of the currency: an exact decimal"`
	State      CallbackState      `json:"state" doc:"state of that callback"`
	Told       Told               `json:"told,omitempty" doc:"member told of that callback"`
}

// ToldDeposits is a page of deposits, by merchant and then by time.
type ToldDeposits struct {
	Deposits []ToldDeposit `json:"deposits" nullable:"false" doc:"by merchant, and of each the oldest first"`
	Next     *string       `json:"next" doc:"the cursor of the next page; null: there is none"`
}

// DepositFilter selects deposits. Empty members select all.
type DepositFilter struct {
	Merchant string `query:"merchant" minLength:"1" maxLength:"64" doc:"only of this merchant, 1 to 64 characters"`
}

// Deposits gives a page of deposits, by merchant and then by time.
func (s *Service) Deposits(ctx context.Context, f DepositFilter, o PageOptions) (ToldDeposits, error) {
	return ask[ToldDeposits](ctx, &s.caller, http.MethodGet, withQuery("/v1/deposits", f, o), nil)
}

// AllDeposits gives every deposit that f selects, by merchant and then by time.
func (s *Service) AllDeposits(ctx context.Context, f DepositFilter) iter.Seq2[ToldDeposit, error] {
	return all(func(o PageOptions) ([]ToldDeposit, *string, error) {
		p, err := s.Deposits(ctx, f, o)
		return p.Deposits, p.Next, err
	})
}
