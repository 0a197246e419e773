package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/merchant"
)

const (
	lockInboxSQL = `
SELECT seq, claims, settled, reply FROM inbox
WHERE type = $1 AND id = $2 AND (type = 2 OR call_back_id = $3){lock}`

	keepReplySQL = `
UPDATE inbox SET settled = 1, lease_until = 0, reply = $2, ended = $3 WHERE seq = $1 AND settled = 0`

	endReplySQL = `UPDATE inbox SET reply = $2 WHERE type = 2 AND id = $1 AND settled = 1`

	endLeaseSQL = `UPDATE inbox SET lease_until = 0 WHERE seq = $1 AND claims = $2 AND settled = 0`
)

// Settle implements merchant.Inbox.
func (b *Book) Settle(ctx context.Context, s merchant.Settlement) (stands merchant.Reply, err error) {
	if err := db.CheckText("message", s.Reply.Message); err != nil {
		return merchant.Reply{}, fmt.Errorf("inbox: %w", err)
	}
	if db.CheckText("id", s.ID) != nil {
		return merchant.Reply{}, merchant.ErrNotClaimed
	}
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		var o Order
		if s.Type == countersign.TypeRequestWithdraw { // locked before the inbox, as claims do
			if o, err = findOrder(ctx, t, lockOrderSQL, s.ID); err != nil && !isNotFound(err) {
				return err
			}
		}
		stands = s.Reply
		var seq, claims int64
		var settled bool
		var kept merchant.Reply
		found, err := db.One(ctx, t, lockInboxSQL, []any{int64(s.Type), s.ID, s.Order}, &seq, &claims, db.Bool(&settled),
			db.JSON(&kept))
		switch {
		case err != nil:
			return err
		case !found:
			return merchant.ErrNotClaimed
		}
		final := s.Final
		if settled {
			stands = kept
		}
		ended := false
		if confirms(s.Type, stands) {
			var holds bool
			stands, holds = standing(o, stands)
			final = final && holds
			if ended = holds && !confirms(s.Type, stands); ended {
				err = db.RaiseAlarms(ctx, t, []client.Alarm{{Kind: client.AlarmEndedAgain, Subject: s.ID,
					First: db.MillisOf(s.At)}})
			}
		}
		switch {
		case err != nil:
			return err
		case settled && ended:
			_, err = t.Exec(ctx, endReplySQL, s.ID, formatReply(stands))
		case settled:
		case final:
			_, err = t.Exec(ctx, keepReplySQL, seq, formatReply(stands), int64(db.MillisOf(s.At)))
		default:
			_, err = t.Exec(ctx, endLeaseSQL, seq, s.Claim)
		}
		return err
	})
	switch {
	case errors.Is(err, merchant.ErrNotClaimed):
		return merchant.Reply{}, err
	case err != nil:
		return merchant.Reply{}, fmt.Errorf("inbox: %w", err)
	}
	return stands, nil
}

// judgeAgain replaces the stored confirmation in r if its order is no longer confirmed. It stores the refusal
// instead, so that the next answer to the question needs no further check.
func (in *inboxTx) judgeAgain(ctx context.Context, e *merchant.Entry, row *inboxRow, r *merchant.Claimed) error {
	o, err := findOrder(ctx, in.t, lockOrderSQL, e.ID)
	if err != nil && !isNotFound(err) {
		return err
	}
	var final bool
	if r.Reply, final = standing(o, r.Reply); final && r.Reply.Code != countersign.CodeAccepted {
		row.reply, r.Revoked = r.Reply, true
		in.ledger.alarm(client.AlarmEndedAgain, e.ID, db.MillisOf(e.At))
		in.updates = append(in.updates, db.Statement{SQL: endReplySQL, Args: []any{e.ID, formatReply(r.Reply)}})
	}
	return nil
}

func confirms(typ countersign.Type, r merchant.Reply) bool {
	return typ == countersign.TypeRequestWithdraw && r.Code == countersign.CodeAccepted
}

// standing checks a confirmation again. o is its order, locked, or the zero Order if there is none. r stands while
// the order is confirmed. If nobody has checked the order since a restore, the service must ask again. Any other
// order has ended for good (PROTOCOL.md, I1).
func standing(o Order, r merchant.Reply) (stands merchant.Reply, final bool) {
	code := countersign.CodeOrderCancelled
	switch {
	case o.Restored:
		code = countersign.CodeNotKnownYet
	case o.State == client.OrderConfirmed:
		return r, true
	}
	return merchant.Reply{Code: code, Message: code.Message()}, code == countersign.CodeOrderCancelled
}

// formatReply returns the stored form of a reply. The zero Reply is the empty text.
func formatReply(r merchant.Reply) string {
	if r == (merchant.Reply{}) {
		return ""
	}
	text, _ := json.Marshal(r) // cannot fail: only texts and a number
	return string(text)
}
