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

// signedAnswer is the answer of the merchant whose key is pair about a withdrawal.
func signedAnswer(t testing.TB, pair *envelope.SigningKey, callBackID string, code countersign.ErrCode, d client.Details) *client.SignedAnswer {
	t.Helper()
	opened := must(countersign.WithdrawalAnswer{TenantUserID: "user", CallBackID: callBackID, Details: d, RequestUUID: "uuid"}.Marshal())(t)
	r := countersign.Response{APIKey: "api-key-of-m0", Data: "c2VhbGVk", ErrCode: code}
	if code != countersign.CodeAccepted {
		r.Message = "no"
	}
	body := must(r.Marshal())(t)
	asked := http.Header{"Content-Type": {"application/json"}}
	at := time.Unix(1_700_000_000, 0)
	request := envelope.LinkRequest{Method: http.MethodPost, URL: "https://m.example/withdraw", Header: asked, Body: []byte("{}")}
	ok(t, envelope.GenerateSigningKey().SignRequest(request, []byte("{}"), at))
	h := http.Header{"Content-Type": {"application/json"}}
	ok(t, pair.SignResponse(envelope.LinkResponse{Status: 200, Header: h, Body: body, Request: asked}, opened, at))
	return &client.SignedAnswer{Body: string(body), Opened: string(opened), Status: 200, ContentType: "application/json",
		ContentDigest: h.Get(envelope.HeaderDigest), SignatureInput: h.Get(envelope.HeaderSignatureInput), Signature: h.Get(envelope.HeaderSignature),
		RequestSignature: asked.Get(envelope.HeaderSignature)}
}

// confirm answers the question about w with a, which may be nil and was verified with the public part by.
func confirm(t testing.TB, s *Outbox, w Withdrawal, a *client.SignedAnswer, by string, now db.Millis) {
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

// forge writes the row of w as confirmed, or with a permit as released to the holder core, past the program.
func forge(t *testing.T, s *Outbox, w Withdrawal, address, permit string) {
	t.Helper()
	exec(t, s, `UPDATE withdrawals SET state = CASE WHEN $3 = '' THEN 'confirmed' ELSE 'released' END, decision = 'confirmed', decided = 10000,
		release_by = 90000, claim = CASE WHEN $3 = '' THEN '' ELSE 'core' END, permit = $3, confirmed_address = $2, confirmed_chain = 'TRON',
		confirmed_symbol = 'USDT', confirmed_amount = '2.5' WHERE merchant || '.' || id = $1`, w.ID, address, permit)
}

// attack is a merchant m0, whose withdrawals somebody wants who can write the database.
type attack struct {
	*testing.T
	s   *Outbox
	now db.Millis
	d   client.Details
}

func newAttack(t *testing.T, s *Outbox, keys string) attack {
	tampered.Store(s, true)
	addMerchants(t, s, 1, func(m *Merchant) { m.AnswerKey = keys })
	return attack{t, s, 10_000, *someDetails(t, "2.5")}
}

func (a attack) add(id string) Withdrawal {
	return addWithdrawal(a, a.s, newWithdrawal(id, a.now+50_000, &a.d), a.now)
}

func (a attack) setKeys(keys ...*envelope.SigningKey) {
	var texts []string
	for _, k := range keys {
		texts = append(texts, k.PublicBase64())
	}
	must(a.s.UpdateMerchant(ctx, "m0", a.now, func(m *Merchant) error { m.AnswerKey = strings.Join(texts, ","); return nil }))(a)
}

// ask asks for the permit of w. refused is a word of the refusal, which raises the alarm; empty: w gets it.
func (a attack) ask(what string, w Withdrawal, refused string) (p Permit) {
	a.Helper()
	p, err := a.s.Release(ctx, w.ID, Holder{"core", "core"}, "permit", a.now+1)
	alarmed := slices.ContainsFunc(must(endtest.Alarms(ctx, a.s))(a), func(x client.Alarm) bool {
		return x.Kind == client.AlarmEvidenceDiffers && x.Subject == w.ID
	})
	is := must(a.s.Withdrawal(ctx, w.ID))(a)
	if refused == "" && (err != nil || alarmed) || refused != "" && (!errors.Is(err, db.ErrConflict) ||
		!strings.Contains(err.Error(), refused) || !alarmed || p != (Permit{}) || is.Released != 0) {
		a.Errorf("%s: %+v, %v, alarm %v, it is %s", what, p, err, alarmed, is.State)
	}
	return p
}

// testSignedRelease: of a merchant that signs, a permit needs its signed answer: a row that says confirmed is not
// enough, nor is an answer about something else or by somebody else. A key that is replaced counts while it is set.
func testSignedRelease(t *testing.T, s *Outbox) {
	pair, other, fresh := envelope.GenerateSigningKey(), envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
	a := newAttack(t, s, pair.PublicBase64())
	honest, long := a.add("honest"), a.d
	confirm(t, s, honest, signedAnswer(t, pair, "honest", 0, a.d), "", a.now)
	spelled := a.add("spelled")
	long.Amount = must(countersign.ParseAmount("2.50"))(t)
	confirm(t, s, spelled, signedAnswer(t, pair, "spelled", 0, long), "", a.now)
	for _, w := range []Withdrawal{honest, spelled} {
		for _, duplicate := range []bool{false, true} {
			p := a.ask(w.CallBackID, w, "")
			if p.Duplicate != duplicate || p.Answer == nil || p.Answer.Confirms(w.CallBackID, a.d, pair) != nil {
				t.Errorf("%s: %+v", w.CallBackID, p)
			}
		}
	}
	var kept []byte // the body has the merchant's API key
	must(db.One(ctx, s, `SELECT answer FROM answers WHERE id = $1`, []any{honest.ID}, &kept))(t)
	if json.Valid(kept) || strings.Contains(string(kept), "api-key") {
		t.Errorf("the answer is kept as %q", kept)
	}

	forged := a.add("forged row")
	forge(t, s, forged, a.d.Address, "")
	a.ask("a row without an answer", forged, "answerKey")
	exec(t, s, `INSERT INTO answers (id, data_key, answer) SELECT $1, data_key, answer FROM answers WHERE id = $2`, forged.ID, honest.ID)
	a.ask("the sealed answer of another withdrawal", forged, "answerKey")
	dearer := a.d
	dearer.Amount = must(countersign.ParseAmount("25"))(t)
	altered := *signedAnswer(t, pair, "altered", 0, a.d)
	altered.Opened = strings.Replace(altered.Opened, "2.5", "25", 1)
	for name, said := range map[string]*client.SignedAnswer{
		"not signed":             nil,
		"moved":                  signedAnswer(t, pair, "moved", 0, a.d),
		"by another key":         signedAnswer(t, other, "by another key", 0, a.d),
		"about another":          signedAnswer(t, pair, "another", 0, a.d),
		"of another amount":      signedAnswer(t, pair, "of another amount", 0, dearer),
		"a refusal that repeats": signedAnswer(t, pair, "a refusal that repeats", 2001, a.d),
		"altered":                &altered,
	} {
		w := a.add(name)
		if confirm(t, s, w, said, "", a.now); name == "moved" {
			exec(t, s, `UPDATE withdrawals SET confirmed_address = 'EVIL' WHERE merchant || '.' || id = $1`, w.ID)
		}
		a.ask(name, w, "answerKey")
	}

	between := a.add("between")
	confirm(t, s, between, signedAnswer(t, pair, "between", 0, a.d), pair.PublicBase64(), a.now)
	a.setKeys(fresh)
	a.ask("under a key that the merchant has no more", between, "answerKey")
	a.setKeys(fresh, pair)
	if p, err := s.Release(ctx, between.ID, Holder{"core", "core"}, "permit", a.now+1); err != nil || p.Answer == nil {
		t.Errorf("with both keys: %+v, %v", p, err)
	}
}

// testSignedRepeat: of a merchant that signs, a permit that the row says was given is given again only as the first
// one is, so a row that was written as released gets none either. The merchant may have replaced its key since, and
// the answer may have been lost by a restore.
func testSignedRepeat(t *testing.T, s *Outbox) {
	pair, other := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
	a, by, again := newAttack(t, s, pair.PublicBase64()), pair.PublicBase64(), "not given again"
	evil := a.d
	evil.Address = "EVIL"
	for _, name := range []string{"no answer", "no answer, executed"} {
		w := a.add(name)
		if forge(t, s, w, "EVIL", "cpt_forged"); name != "no answer" {
			exec(t, s, `UPDATE withdrawals SET state = 'executed', origin = 'core', ended = 10001 WHERE merchant || '.' || id = $1`, w.ID)
		}
		a.ask(name, w, again)
	}
	for name, said := range map[string]*client.SignedAnswer{
		"another address":        signedAnswer(t, pair, "another address", 0, a.d),
		"by another key":         signedAnswer(t, other, "by another key", 0, evil),
		"about another":          signedAnswer(t, pair, "another", 0, evil),
		"a refusal that repeats": signedAnswer(t, pair, "a refusal that repeats", 2001, evil),
	} {
		w := a.add(name)
		confirm(t, s, w, said, by, a.now)
		forge(t, s, w, "EVIL", "cpt_forged")
		a.ask(name, w, again)
	}

	replaced, lost := a.add("replaced"), a.add("lost")
	confirm(t, s, replaced, signedAnswer(t, pair, "replaced", 0, a.d), by, a.now)
	a.ask("signed", replaced, "")
	a.setKeys(envelope.GenerateSigningKey())
	if p := a.ask("after the merchant replaced its key", replaced, ""); !p.Duplicate || p.Answer == nil {
		t.Errorf("after the merchant replaced its key: %+v", p)
	}
	// The backup does not have the answer; reconcile says that the core has the permit.
	must(s.Restored(ctx, 0, a.now))(t)
	ok(t, s.Adopt(ctx, Executed{Merchant: "m0", CallBackID: "lost", Claim: "core", Permit: "cpt_lost"}, "", a.now))
	must(s.Reconcile(ctx, a.now))(t)
	// Afterwards a withdrawal that is not known here is not made either.
	err := s.Adopt(ctx, Executed{Merchant: "m0", CallBackID: "unknown", TenantUserID: "65515", Details: &a.d, Claim: "core"}, "cpt", a.now)
	if _, found := s.WithdrawalByCallBackID(ctx, "m0", "unknown"); !errors.Is(err, db.ErrConflict) || found != db.ErrNotFound {
		t.Errorf("adopted without a restore: %v, then %v", err, found)
	}
	if p := a.ask("after a restore", lost, ""); p.Permit != "cpt_lost" || !p.Duplicate {
		t.Errorf("after a restore: %+v", p)
	}
	exec(t, s, `UPDATE withdrawals SET confirmed_address = 'EVIL', released = 0 WHERE merchant || '.' || id = $1`, lost.ID)
	a.ask("another address after a restore", lost, again)
}

// testKeySetLater: an answer that came while the merchant had no answerKey stays the unsigned answer that it was when
// the merchant gets one: its withdrawal is released, for the details that were confirmed, and a row that was written
// as confirmed is not. Before, the row decides: who writes the database gets a permit, as SECURITY.md says.
func testKeySetLater(t *testing.T, s *Outbox) {
	a := newAttack(t, s, "")
	var list [3]Withdrawal
	for i, id := range []string{"before", "after", "moved"} {
		list[i] = a.add(id)
		confirm(t, s, list[i], nil, "", a.now)
	}
	before, after, moved, forged, unsigned := list[0], list[1], list[2], a.add("forged"), a.add("unsigned")
	a.ask("before", before, "")
	forge(t, s, unsigned, "EVIL", "")
	if p := a.ask("a forged row", unsigned, ""); p.Withdrawal.Details.Address != "EVIL" || p.Answer != nil {
		t.Errorf("a forged row: %+v", p)
	}
	a.setKeys(envelope.GenerateSigningKey())
	for _, w := range []Withdrawal{before, after, after} {
		if p := a.ask(w.CallBackID, w, ""); p.Permit == "" || p.Answer != nil {
			t.Errorf("%s: %+v", w.CallBackID, p)
		}
	}
	exec(t, s, `UPDATE withdrawals SET confirmed_address = 'EVIL' WHERE merchant || '.' || id = $1`, moved.ID)
	forge(t, s, forged, a.d.Address, "")
	exec(t, s, `INSERT INTO answers (id, data_key, answer) SELECT $1, data_key, answer FROM answers WHERE id = $2`, forged.ID, before.ID)
	for _, w := range []Withdrawal{moved, forged} {
		a.ask(w.CallBackID, w, "answerKey")
	}
}
