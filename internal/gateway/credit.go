package gateway

import (
	"net/http"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/journal"
)

// credit is what a person signs of a held deposit, as records have it. None of it ever changes.
type credit struct {
	Deposit      int64            `json:"deposit"`
	TenantUserID string           `json:"tenantUserId,omitempty"`
	Details      *journal.Details `json:"details"`
	TxID         string           `json:"txId,omitempty"`
}

func signedCredit(d book.TakenDeposit) credit {
	c := &d.Deposit
	return credit{d.Seq, c.TenantUserID, journal.DetailsOf(&countersign.Details{Address: c.ToAddress, ChainName: c.ChainName, Symbol: c.Symbol, Amount: c.Amount}), c.TxID}
}

func (a *server) creditApproval(c *api.Call, seq int64, _ api.None) (client.Statement, error) {
	d, err := a.lists.Deposit(c.R.Context(), seq)
	if err != nil {
		return client.Statement{}, err
	}
	out, err := a.changes.Passkeys().StatementIfRequired(c, journal.DepositCredited, journal.AboutDeposit(seq), signedCredit(d))
	if d.State != book.DepositHeld {
		out.MayNot = "the deposit is " + string(d.State)
	}
	return out, err
}

// creditDeposit wants the signature of a person of whose role passkeys are required.
func (a *server) creditDeposit(c *api.Call, seq int64, in client.Credit) (client.DepositEntry, error) {
	d, err := a.book.Deposit(c.R.Context(), seq)
	if err != nil {
		return client.DepositEntry{}, err
	}
	ctx, err := a.changes.Passkeys().SignedIfRequired(c, journal.DepositCredited, journal.AboutDeposit(seq), signedCredit(d), in.Passkey)
	if err != nil {
		return client.DepositEntry{}, err
	}
	d, err = a.book.DecideDeposit(ctx, seq, book.DepositCredited, c.Token.ID, in.Reason, c.Now)
	return depositOf(d), err
}

// errCreditEach keeps a person from crediting with one signature what the page did not show.
var errCreditEach = api.NewProblem(http.StatusForbidden, "this role credits held deposits only with a passkey, which signs one at a time: credit them one by one in the console")
