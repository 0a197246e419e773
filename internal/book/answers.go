package book

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"

	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/merchant"
)

func linkOf(l *merchant.Link) *journal.Link {
	if l == nil {
		return nil
	}
	flat := func(h http.Header) map[string]string {
		m := map[string]string{}
		for name := range h {
			m[name] = h.Get(name)
		}
		return m
	}
	out := &journal.Link{URL: l.URL, Request: flat(l.Request)}
	if l.Response != nil {
		out.Status, out.Response = l.Status, flat(l.Response)
	}
	return out
}

const (
	answeredSQL = `SELECT 1 FROM blocks WHERE block = $1`

	addAnsweredSQL = `INSERT INTO blocks (block, body, seen) VALUES ($1, $2, $3) ON CONFLICT (block) DO NOTHING`
)

// RecordAnswer adds an answer about a withdrawal to the audit log. It does so once for each request and errCode,
// however often the answer is repeated. Otherwise somebody who recorded a request could fill the disk.
func (b *Book) RecordAnswer(ctx context.Context, e merchant.Exchange, now db.Millis) error {
	q := e.Question
	sum := sha256.Sum256([]byte(fmt.Sprintf("answered %d %q %q", e.Code, q.CallBackID, q.RequestUUID)))
	digest := hex.EncodeToString(sum[:16])
	if known, err := db.One(ctx, b, answeredSQL, []any{digest}); err != nil || known {
		return err
	}
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if n, err := t.Exec(ctx, addAnsweredSQL, digest, sum[:16], int64(now)); err != nil || n == 0 {
			return err
		}
		return journal.AddAbout(ctx, t, journal.WithdrawalAnswered, q.CallBackID, now, journal.Answer{
			CallBackID: q.CallBackID, TenantUserID: q.TenantUserID, RequestUUID: q.RequestUUID, Request: string(e.Request),
			RequestOpened: string(e.RequestOpened),
			ErrCode:       int64(e.Code), Message: e.Message, Response: e.Data, ResponseOpened: string(e.DataOpened),
			Link: linkOf(e.Link)})
	})
}
