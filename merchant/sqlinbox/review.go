package sqlinbox

import (
	"context"
	"errors"
	"time"

	"countersign"
	"countersign/merchant"
)

var (
	// ErrNotHeld: no deposit with this trackingId was left for a person.
	ErrNotHeld = errors.New("sqlinbox: no deposit with this trackingId awaits a person")
	// ErrDecided: the deposit was decided the other way before, which stands.
	ErrDecided = errors.New("sqlinbox: the deposit was decided otherwise before")
)

const (
	heldColumns = `SELECT seq, id, callback, duplicate, suspect FROM countersign_inbox`
	heldSQL     = heldColumns + ` WHERE review = 1 AND seq > ? ORDER BY seq LIMIT ?`
	readHeldSQL = heldColumns + ` WHERE entry = ?`
)

// Held returns the deposits that were accepted and await a person (PROTOCOL.md, I2 and B7), those after number after,
// in order, limit at most: the Seq of the last is the next after. One that can no longer be read has only its
// TrackingID.
func (in *Inbox) Held(ctx context.Context, after int64, limit int) (list []merchant.Deposit, err error) {
	err = in.transact(ctx, func(t *transaction) error {
		list = nil
		return t.each(ctx, heldSQL, []any{after, limit}, func(scan func(...any) error) error {
			d, err := scanHeld(scan)
			list = append(list, d)
			return err
		})
	})
	return list, wrapped(err)
}

func scanHeld(scan func(...any) error) (d merchant.Deposit, err error) {
	var seq, duplicate, suspect int64
	var id, callback []byte
	if err := scan(&seq, &id, &callback, &duplicate, &suspect); err != nil {
		return d, err
	}
	d.TrackingID = string(id)
	if cb, err := countersign.ParseCallback(callback, countersign.ParseOptions{Lenient: true}); err == nil {
		if whole, ok := cb.(*countersign.Deposit); ok {
			d.Deposit = *whole
		}
	}
	d.Seq, d.PossibleDuplicate, d.Suspect = seq, duplicate != 0, suspect != 0
	return d, nil
}

// Credit does the merchant's part of a held deposit for a person, who has compared it with
// the chain: OnDeposit runs in the transaction that notes the decision, and what it wrote is
// committed with it, or neither is. note says who decided and why. The same decision again
// changes nothing. Errors: ErrNotHeld, ErrDecided, and that of OnDeposit.
func (in *Inbox) Credit(ctx context.Context, trackingID, note string) error {
	if in.c.OnDeposit == nil {
		return wrapped(errors.New("crediting needs Config.OnDeposit"))
	}
	return in.decide(ctx, trackingID, note, reviewCredited)
}

// Reject notes that a held deposit is not credited. See Credit.
func (in *Inbox) Reject(ctx context.Context, trackingID, note string) error {
	return in.decide(ctx, trackingID, note, reviewRejected)
}

const (
	readReviewSQL = `SELECT review FROM countersign_inbox WHERE entry = ?`

	markHeldSQL = `UPDATE countersign_inbox SET mark = ? WHERE seq = ? AND review = 1`

	decideSQL = `
UPDATE countersign_inbox SET review = ?, review_note = ?, reviewed = ?, mark = 0 WHERE seq = ? AND review = 1 AND mark = ?`
)

func (in *Inbox) decide(ctx context.Context, trackingID, note string, to int64) error {
	key := entryKey(countersign.TypeDeposited, trackingID, "")
	var failure error // of the merchant's function
	err := in.transact(ctx, func(t *transaction) error {
		failure = nil
		if err := t.lock(ctx, key); err != nil {
			return err
		}
		var is int64
		switch known, err := t.one(ctx, readReviewSQL, []any{key}, &is); {
		case err != nil:
			return err
		case !known || is == 0:
			failure = ErrNotHeld
			return failure
		case is == to:
			return nil
		case is != reviewHeld:
			failure = ErrDecided
			return failure
		}
		d, err := scanHeld(func(into ...any) error {
			_, err := t.one(ctx, readHeldSQL, []any{key}, into...)
			return err
		})
		if err != nil {
			return err
		}
		mark := newMark()
		if _, err := t.exec(ctx, markHeldSQL, mark, d.Seq); err != nil {
			return err
		}
		if to == reviewCredited {
			if d.RequestUUID == "" {
				failure = errors.New("sqlinbox: the deposit was not kept in a form that can be read: credit it yourself, and reject it here")
				return failure
			}
			if failure = in.c.OnDeposit(ctx, t.tx, d); failure != nil {
				return failure
			}
		}
		return t.ends(ctx, decideSQL, to, t.d.blob(note), time.Now().UnixMilli(), d.Seq, mark)
	})
	if failure != nil {
		return failure
	}
	return wrapped(err)
}
