package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/web"
	"countersign/merchant"
)

// verifyLimit bounds an answer, in bytes.
const verifyLimit = 4 << 10

// verifyAtOnce is how many idle connections are kept: each saves a handshake.
const verifyAtOnce = 8

// verifier asks the merchant's check.
type verifier struct {
	to  *web.Poster
	log *slog.Logger
}

func newVerifier(c Config) (*verifier, error) {
	v := c.Verify
	if v.Timeout < 0 || v.For < 0 {
		return nil, errors.New("gateway: a limit of verifying is below 0")
	}
	to, err := c.poster(v.URL, v.Secret, cmp.Or(v.Timeout, 30*time.Second), verifyAtOnce)
	if err != nil {
		return nil, fmt.Errorf("gateway: the verify URL or its secret: %w", err)
	}
	return &verifier{to: to, log: c.Log}, nil
}

// verify implements merchant.Config.Verify. Anything but a complete and correct answer is an error, which means not
// yet.
func (v *verifier) verify(ctx context.Context, d countersign.Deposit) (merchant.Verdict, error) {
	entry := merchant.NewEntry(&d)
	question := entry.Question()
	var body bytes.Buffer
	err := api.EncodeJSON(&body, client.DepositQuestion{Type: client.MessageDepositVerify, Data: client.DepositToVerify{
		TrackingID: d.TrackingID, TenantUserID: d.TenantUserID, TxID: d.TxID, ChainName: d.ChainName, Symbol: d.Symbol,
		Amount:      d.Amount,
		FromAddress: d.FromAddress, ToAddress: d.ToAddress, TxIndex: d.TxIndex,
	}})
	if err != nil {
		return merchant.VerdictNotYet, err
	}
	answer, status, err := v.to.Ask(ctx, "verify_"+hex.EncodeToString(question[:16]), body.Bytes(), verifyLimit)
	switch {
	case err != nil:
		return merchant.VerdictNotYet, fmt.Errorf("--verify-url: %s", web.WithoutURL(err))
	case status != http.StatusOK:
		return merchant.VerdictNotYet, fmt.Errorf("--verify-url: status %d", status)
	}
	verdict, reason, err := parseVerdict(answer)
	if err != nil {
		return merchant.VerdictNotYet, fmt.Errorf("--verify-url: the answer: %w", err)
	}
	v.log.LogAttrs(ctx, slog.LevelInfo, "a deposit was verified", slog.String("trackingId", d.TrackingID),
		slog.String("verdict", verdict.String()), slog.String("reason", reason))
	return verdict, nil
}

const (
	askEvery  = time.Second
	askAtOnce = 8
)

// askAgain asks the check again about deposits that it held and that the provider may not resend. It books those with a
// yes and returns how many it asked about.
func (g *Gateway) askAgain(ctx context.Context, now db.Millis) (n int, err error) {
	due, err := g.book.AskAgain(ctx, now, askAtOnce)
	var all sync.WaitGroup
	errs := make([]error, len(due))
	for i, seq := range due {
		all.Go(func() { errs[i] = g.askAbout(ctx, seq) })
	}
	all.Wait()
	return len(due), errors.Join(append(errs, err)...)
}

func (g *Gateway) askAbout(ctx context.Context, seq int64) error {
	r, err := g.book.Refused(ctx, seq)
	if err != nil {
		return err
	}
	again := g.handler.Retry(ctx, []byte(r.Body), r.Signed)
	at := db.MillisOf(g.c.Now())
	switch {
	case again.Code == countersign.CodeAccepted && again.Reason.Answered():
		g.c.Log.Info("a deposit that the check had held was taken", "refused", seq, "id", r.CallbackID, "seq", again.Seq)
		err = g.book.DecideRefused(ctx, seq, client.RefusedTaken, byVerify, "", at)
	case again.Reason.Refusal() && again.Reason != merchant.ReasonOverload:
		alarms := []client.Alarm{{Kind: client.AlarmDepositRefused, Subject: string(again.Reason), First: at}}
		if suspect(again.Reason) {
			alarms = append(alarms, client.Alarm{Kind: client.AlarmRequestSuspect, Subject: r.CallbackID + " (" +
				string(again.Reason) + ")", First: at})
		}
		g.c.Log.Error("a deposit that the check had held was refused", "refused", seq, "id", r.CallbackID, "reason",
			string(again.Reason))
		err = g.book.EndHeld(ctx, seq, client.RefusalReason(again.Reason), int64(again.Code), again.Code.Message(), alarms)
	}
	return err
}

// parseVerdict reads a client.DepositVerdict strictly: an unknown or repeated member could be meant to change what the
// verdict says.
func parseVerdict(answer []byte) (verdict merchant.Verdict, reason string, err error) {
	object, err := web.ParseObject(answer, verifyLimit)
	if err != nil {
		return merchant.VerdictNotYet, "", err
	}
	texts := map[string]string{}
	for _, m := range object.Members {
		raw := object.Raw(m)
		if m.Name != "verdict" && m.Name != "reason" || raw[0] != '"' {
			return merchant.VerdictNotYet, "", fmt.Errorf("member %s is not known, or no text", web.Printable(m.Name))
		}
		texts[m.Name] = web.JSONText(raw)
	}
	verdict, err = merchant.ParseVerdict(texts["verdict"])
	return verdict, web.Printable(texts["reason"]), err
}
