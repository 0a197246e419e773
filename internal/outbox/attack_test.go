package outbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
)

// The tests of this file play somebody who can write the database and has no key.

func signingKey(t testing.TB) *envelope.SigningKey {
	t.Helper()
	return envelope.GenerateSigningKey()
}

// signedAnswer is the answer of the merchant whose key is pair about a withdrawal.
func signedAnswer(t testing.TB, pair *envelope.SigningKey, callBackID string, code countersign.ErrCode, d client.Details) *client.SignedAnswer {
	t.Helper()
	opened := must(countersign.WithdrawalAnswer{TenantUserID: "user", CallBackID: callBackID, Details: countersign.Details(d), RequestUUID: "uuid"}.Marshal())(t)
	r := countersign.Response{APIKey: "api-key-of-m0", Data: "c2VhbGVk", ErrCode: code}
	if code != countersign.CodeAccepted {
		r.Message = "no"
	}
	body := must(r.Marshal())(t)
	asked := http.Header{"Content-Type": {"application/json"}}
	at := time.Unix(1_700_000_000, 0)
	request := envelope.LinkRequest{Method: http.MethodPost, URL: "https://m.example/withdraw", Header: asked, Body: []byte("{}")}
	if err := signingKey(t).SignRequest(request, []byte("{}"), at); err != nil {
		t.Fatal(err)
	}
	h := http.Header{"Content-Type": {"application/json"}}
	if err := pair.SignResponse(envelope.LinkResponse{Status: 200, Header: h, Body: body, Request: asked}, opened, at); err != nil {
		t.Fatal(err)
	}
	return &client.SignedAnswer{Body: string(body), Opened: string(opened), Status: 200, ContentType: "application/json",
		ContentDigest: h.Get(envelope.HeaderDigest), SignatureInput: h.Get(envelope.HeaderSignatureInput), Signature: h.Get(envelope.HeaderSignature),
		RequestSignature: asked.Get(envelope.HeaderSignature)}
}

// confirm answers the question about w with a, which may be nil.
func confirm(t testing.TB, s *Outbox, w Withdrawal, a *client.SignedAnswer, now db.Millis) {
	t.Helper()
	confirmUnder(t, s, w, a, "", now)
}

// confirmUnder is confirm of an answer that was verified with the public part by.
func confirmUnder(t testing.TB, s *Outbox, w Withdrawal, a *client.SignedAnswer, by string, now db.Millis) {
	t.Helper()
	for _, c := range claim(t, s, countersign.LaneWithdraw, now, 100) {
		if c.ID == w.ID {
			n := answer(c, countersign.DecisionConfirmed, w.Ordered)
			n.Exchange = &Exchange{Signed: a, SignedBy: by}
			if done := must(s.Settle(ctx, []Settlement{n}, now))(t)[0]; done.Decision != countersign.DecisionConfirmed {
				t.Fatalf("settled %+v", done)
			}
			return
		}
	}
	t.Fatal("the question was not claimed")
}

// forgeConfirmed writes the row of an awaiting withdrawal as confirmed, past the program.
func forgeConfirmed(t *testing.T, s *Outbox, w Withdrawal, address string) {
	t.Helper()
	_, rest, _ := strings.Cut(w.ID, ".")
	exec(t, s, `UPDATE withdrawals SET state = 'confirmed', decision = 'confirmed', decided = 10000, release_by = 90000,
		confirmed_address = '`+address+`', confirmed_chain = 'TRON', confirmed_symbol = 'USDT', confirmed_amount = '2.5' WHERE id = '`+rest+`'`)
}

// forgeReleased is forgeConfirmed, with the permit that the holder core is about to ask for.
func forgeReleased(t *testing.T, s *Outbox, w Withdrawal, origin string) {
	t.Helper()
	_, rest, _ := strings.Cut(w.ID, ".")
	exec(t, s, `UPDATE withdrawals SET state = 'released', decision = 'confirmed', decided = 10000, release_by = 90000, claim = 'core', origin = '`+origin+`',
		permit = 'cpt_forged', released = 10000, confirmed_address = 'EVIL', confirmed_chain = 'TRON', confirmed_symbol = 'USDT', confirmed_amount = '2.5' WHERE id = '`+rest+`'`)
}

// evidenceDiffers reports whether the alarm says that w has no answer that its merchant signed.
func evidenceDiffers(t *testing.T, s *Outbox, w Withdrawal) bool {
	t.Helper()
	return slices.ContainsFunc(must(endtest.Alarms(ctx, s))(t), func(a client.Alarm) bool {
		return a.Kind == client.AlarmEvidenceDiffers && a.Subject == w.ID
	})
}

// testSignedRelease: of a merchant that signs, a permit needs its signed answer: a row that says
// that it confirmed gets none, and raises an alarm. A permit carries the answer.
func testSignedRelease(t *testing.T, s *Outbox) {
	tampered.Store(s, true)
	pair, other, fresh := signingKey(t), signingKey(t), signingKey(t)
	addMerchants(t, s, 1, func(m *Merchant) { m.AnswerKey = pair.PublicBase64() })
	now := db.Millis(10_000)
	d := *someDetails(t, "2.5")
	add := func(id string) Withdrawal { return addWithdrawal(t, s, newWithdrawal(id, now+50_000, &d), now) }
	alarmed := func(w Withdrawal) bool { return evidenceDiffers(t, s, w) }
	refused := func(what string, w Withdrawal) {
		t.Helper()
		p, err := s.Release(ctx, w.ID, Holder{"core", "core"}, "permit", now+1)
		if !errors.Is(err, db.ErrConflict) || !strings.Contains(err.Error(), "answerKey") || !alarmed(w) {
			t.Errorf("%s: %+v, %v, alarm %v", what, p, err, alarmed(w))
		}
		if w := must(s.Withdrawal(ctx, w.ID))(t); w.Released != 0 {
			t.Errorf("%s: it is released", what)
		}
	}
	gets := func(what string, w Withdrawal) {
		t.Helper()
		for _, duplicate := range []bool{false, true} {
			p, err := s.Release(ctx, w.ID, Holder{"core", "core"}, "permit", now+1)
			if err != nil || p.Duplicate != duplicate || p.Answer == nil || p.Answer.Confirms(w.CallBackID, countersign.Details(d), pair) != nil || alarmed(w) {
				t.Errorf("%s: %+v, %v, alarm %v", what, p, err, alarmed(w))
			}
		}
	}
	honest := add("honest")
	confirm(t, s, honest, signedAnswer(t, pair, "honest", 0, d), now)
	spelled := add("spelled")
	long := d
	long.Amount = must(countersign.ParseAmount("2.50"))(t)
	confirm(t, s, spelled, signedAnswer(t, pair, "spelled", 0, long), now)
	gets("signed", honest)
	gets("the amount in another form", spelled)

	forged := add("forged row")
	forgeConfirmed(t, s, forged, d.Address)
	refused("a row without an answer", forged)
	exec(t, s, `INSERT INTO answers (id, data_key, answer) SELECT '`+forged.ID+`', data_key, answer FROM answers WHERE id = '`+honest.ID+`'`)
	refused("the sealed answer of another withdrawal", forged)

	moved := add("moved")
	confirm(t, s, moved, signedAnswer(t, pair, "moved", 0, d), now)
	_, rest, _ := strings.Cut(moved.ID, ".")
	exec(t, s, `UPDATE withdrawals SET confirmed_address = 'EVIL' WHERE id = '`+rest+`'`)
	refused("another address", moved)

	dearer := d
	dearer.Amount = must(countersign.ParseAmount("25"))(t)
	altered := *signedAnswer(t, pair, "altered", 0, d)
	altered.Opened = strings.Replace(altered.Opened, "2.5", "25", 1)
	for name, a := range map[string]*client.SignedAnswer{
		"not signed":             nil,
		"by another key":         signedAnswer(t, other, "by another key", 0, d),
		"about another":          signedAnswer(t, pair, "another", 0, d),
		"of another amount":      signedAnswer(t, pair, "of another amount", 0, dearer),
		"a refusal that repeats": signedAnswer(t, pair, "a refusal that repeats", 2001, d),
		"altered":                &altered,
	} {
		w := add(name)
		confirm(t, s, w, a, now)
		refused(name, w)
	}

	// The merchant replaces its key: the earlier one counts for as long as it is set.
	between := add("between")
	confirm(t, s, between, signedAnswer(t, pair, "between", 0, d), now)
	keys := func(list ...*envelope.SigningKey) {
		var texts []string
		for _, k := range list {
			texts = append(texts, k.PublicBase64())
		}
		must(s.UpdateMerchant(ctx, "m0", now, func(m *Merchant) error { m.AnswerKey = strings.Join(texts, ","); return nil }))(t)
	}
	keys(fresh)
	refused("under a key that the merchant has no more", between)
	keys(fresh, pair)
	if p, err := s.Release(ctx, between.ID, Holder{"core", "core"}, "permit", now+1); err != nil || p.Answer == nil {
		t.Errorf("with both keys: %+v, %v", p, err)
	}
}

// testSignedRepeat: of a merchant that signs, a permit that the row says was given is given again
// only as the first one is, so a row that was written as released gets none either. The merchant
// may have replaced its key since, and the answer may have been lost by a restore.
func testSignedRepeat(t *testing.T, s *Outbox) {
	tampered.Store(s, true)
	pair, other, fresh := signingKey(t), signingKey(t), signingKey(t)
	addMerchants(t, s, 1, func(m *Merchant) { m.AnswerKey = pair.PublicBase64() })
	now := db.Millis(10_000)
	d := *someDetails(t, "2.5")
	evil := d
	evil.Address = "EVIL"
	add := func(id string) Withdrawal { return addWithdrawal(t, s, newWithdrawal(id, now+50_000, &d), now) }
	ask := func(w Withdrawal) (Permit, error) {
		return s.Release(ctx, w.ID, Holder{"core", "core"}, "cpt_other", now+1)
	}
	refused := func(what string, w Withdrawal) {
		t.Helper()
		p, err := ask(w)
		if !errors.Is(err, db.ErrConflict) || !strings.Contains(err.Error(), "not given again") || p != (Permit{}) || !evidenceDiffers(t, s, w) {
			t.Errorf("%s: %+v, %v", what, p, err)
		}
	}
	for _, origin := range []string{"core", ""} {
		w := add("no answer, of origin " + origin)
		forgeReleased(t, s, w, origin)
		refused(w.CallBackID, w)
	}
	executed := add("executed")
	forgeReleased(t, s, executed, "core")
	exec(t, s, `UPDATE withdrawals SET state = 'executed', ended = 10001 WHERE claim = 'core' AND confirmed_address = 'EVIL'`)
	refused("a row that says executed", executed)
	for name, a := range map[string]*client.SignedAnswer{
		"another address":        signedAnswer(t, pair, "another address", 0, d),
		"by another key":         signedAnswer(t, other, "by another key", 0, evil),
		"about another":          signedAnswer(t, pair, "another", 0, evil),
		"a refusal that repeats": signedAnswer(t, pair, "a refusal that repeats", 2001, evil),
	} {
		w := add(name)
		confirmUnder(t, s, w, a, pair.PublicBase64(), now)
		forgeReleased(t, s, w, "core")
		refused(name, w)
	}

	replaced, lost := add("replaced"), add("lost")
	confirmUnder(t, s, replaced, signedAnswer(t, pair, "replaced", 0, d), pair.PublicBase64(), now)
	if _, err := ask(replaced); err != nil {
		t.Fatal(err)
	}
	must(s.UpdateMerchant(ctx, "m0", now, func(m *Merchant) error { m.AnswerKey = fresh.PublicBase64(); return nil }))(t)
	if p, err := ask(replaced); err != nil || !p.Duplicate || p.Answer == nil || evidenceDiffers(t, s, replaced) {
		t.Errorf("after the merchant replaced its key: %+v, %v", p, err)
	}
	// The backup does not have the answer; reconcile says that the core has the permit.
	must(s.Restored(ctx, 0, now))(t)
	must(true, s.Adopt(ctx, Executed{Merchant: "m0", CallBackID: "lost", Claim: "core", Permit: "cpt_lost"}, "", now))(t)
	must(s.Reconcile(ctx, now))(t)
	if p, err := ask(lost); err != nil || p.Permit != "cpt_lost" || !p.Duplicate || evidenceDiffers(t, s, lost) {
		t.Errorf("after a restore: %+v, %v", p, err)
	}
	_, rest, _ := strings.Cut(lost.ID, ".")
	exec(t, s, `UPDATE withdrawals SET confirmed_address = 'EVIL' WHERE id = '`+rest+`'`)
	refused("another address after a restore", lost)
}

// testUnsignedRelease: of a merchant that does not sign, the row decides. Who writes the database
// gets a permit; SECURITY.md says so.
func testUnsignedRelease(t *testing.T, s *Outbox) {
	tampered.Store(s, true)
	addMerchants(t, s, 1, nil)
	now := db.Millis(10_000)
	w := addWithdrawal(t, s, newWithdrawal("forged", now+50_000, someDetails(t, "2.5")), now)
	forgeConfirmed(t, s, w, "EVIL")
	p, err := s.Release(ctx, w.ID, Holder{"core", "core"}, "permit", now+1)
	if err != nil || p.Withdrawal.Details.Address != "EVIL" || p.Answer != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

// testKeySetLater: an answer that came while the merchant had no answerKey stays the unsigned answer
// that it was when the merchant gets one: its withdrawal is released, for the details that were
// confirmed, and a row that was written as confirmed is not.
func testKeySetLater(t *testing.T, s *Outbox) {
	tampered.Store(s, true)
	addMerchants(t, s, 1, nil)
	now := db.Millis(10_000)
	d := *someDetails(t, "2.5")
	add := func(id string) Withdrawal { return addWithdrawal(t, s, newWithdrawal(id, now+50_000, &d), now) }
	ask := func(w Withdrawal) (Permit, error) {
		return s.Release(ctx, w.ID, Holder{"core", "core"}, "permit", now+1)
	}
	var confirmed [3]Withdrawal
	for i, id := range []string{"before", "after", "moved"} {
		confirmed[i] = add(id)
		confirm(t, s, confirmed[i], nil, now)
	}
	before, after, moved, forged := confirmed[0], confirmed[1], confirmed[2], add("forged")
	if _, err := ask(before); err != nil {
		t.Fatal(err)
	}
	must(s.UpdateMerchant(ctx, "m0", now, func(m *Merchant) error { m.AnswerKey = signingKey(t).PublicBase64(); return nil }))(t)
	for _, w := range []Withdrawal{before, after, after} {
		if p, err := ask(w); err != nil || p.Permit == "" || p.Answer != nil || evidenceDiffers(t, s, w) {
			t.Errorf("%s: %+v, %v", w.CallBackID, p, err)
		}
	}
	_, rest, _ := strings.Cut(moved.ID, ".")
	exec(t, s, `UPDATE withdrawals SET confirmed_address = 'EVIL' WHERE id = '`+rest+`'`)
	forgeConfirmed(t, s, forged, d.Address)
	exec(t, s, `INSERT INTO answers (id, data_key, answer) SELECT '`+forged.ID+`', data_key, answer FROM answers WHERE id = '`+before.ID+`'`)
	for _, w := range []Withdrawal{moved, forged} {
		if p, err := ask(w); !errors.Is(err, db.ErrConflict) || !evidenceDiffers(t, s, w) {
			t.Errorf("%s: %+v, %v", w.CallBackID, p, err)
		}
	}
}

// testAnswerSealed: the body has the merchant's API key, so no column has it in plain text.
func testAnswerSealed(t *testing.T, s *Outbox) {
	pair := signingKey(t)
	addMerchants(t, s, 1, func(m *Merchant) { m.AnswerKey = pair.PublicBase64() })
	now := db.Millis(10_000)
	w := addWithdrawal(t, s, newWithdrawal("w", now+50_000, someDetails(t, "2.5")), now)
	confirm(t, s, w, signedAnswer(t, pair, "w", 0, *someDetails(t, "2.5")), now)
	var kept []byte
	if found, err := db.One(ctx, s, `SELECT answer FROM answers WHERE id = $1`, []any{w.ID}, &kept); err != nil || !found || json.Valid(kept) || strings.Contains(string(kept), "api-key") {
		t.Errorf("%q, %v, %v", kept, found, err)
	}
}
