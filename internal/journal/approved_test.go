package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/passkeytest"
	"countersign/internal/passkey"
)

// TestRecordsSayWhatWasSigned: an end that writes into its log what nobody has signed, beside
// a good signature of something else, is found by the file alone.
func TestRecordsSayWhatWasSigned(t *testing.T) {
	const page, host = "https://console.example", "console.example"
	device, challenge := passkeytest.New(t, page, host), passkey.NewChallenge()
	key := must(passkey.Register(device.Create(passkey.Encode(challenge)), challenge, page))(t)
	order := passkey.Statement{Act: "order.approved", At: 5000, Token: "tok_ann", ID: "order-1",
		About: []byte(`{"tenantUserId":"u","details":{"amount":"25"},"labels":{"to":"a"},"orderedBy":"tok_till"}`)}
	change := passkey.Statement{Act: "change.approved", At: 5000, Token: "tok_ann", ID: "chg_1", About: []byte(`{"kind":"merchant","merchant":"shop","after":{"url":"https://a"},"proposedBy":"tok_op"}`)}
	added := passkey.Statement{Act: "passkey.added", At: 5000, Token: "tok_ann", ID: "tok_ann", About: []byte(`{"challenge":"c"}`)}
	removed := passkey.Statement{Act: "passkey.removed", At: 5000, Token: "tok_ann", ID: "key_1", About: []byte(`{}`)}
	const ordered = `{"callBackId":"order-1","tenantUserId":"u","state":"approved","details":{"amount":"25"},"reason":"seen","decidedBy":"tok_ann"}`
	const changed = `{"kind":"merchant","merchant":"shop","after":{"url":"https://a"},"proposedBy":"tok_op","reason":""}`
	data := func(from, old, with string) journal.Record {
		if !strings.Contains(from, old) {
			t.Fatalf("%s is not in %s", old, from)
		}
		r := journal.Record{Kind: order.Act, At: 6000, About: []string{"order-1"}, Data: json.RawMessage(strings.Replace(from, old, with, 1))}
		if from == changed {
			r.Kind, r.About = "change.applied", []string{"chg_1", "shop"}
		}
		return r
	}
	with := func(r journal.Record, change func(*journal.Record)) journal.Record { change(&r); return r }
	ordinary, changing := data(ordered, "25", "25"), data(changed, "shop", "shop")
	passkeys := func(kind, challenge string) journal.Record {
		return journal.Record{Kind: kind, At: 6000, About: []string{"key_1", "tok_ann"}, Data: json.RawMessage(`{"token":"tok_ann","key":"key_1","name":"n","origin":"h","public":"p"` + challenge + `}`)}
	}
	for name, of := range map[string]struct {
		signed passkey.Statement
		record journal.Record
		by     string
		good   bool
	}{
		"an order":               {signed: order, record: ordinary, good: true},
		"a change":               {signed: change, record: changing, good: true},
		"a passkey more":         {signed: added, record: passkeys("passkey.added", `,"challenge":"c"`), good: true},
		"a passkey less":         {signed: removed, record: passkeys("passkey.removed", ""), good: true},
		"another amount":         {signed: order, record: data(ordered, "25", "95")},
		"another user":           {signed: order, record: data(ordered, `"u"`, `"v"`)},
		"another order":          {signed: order, record: data(ordered, "order-1", "order-2")},
		"another state":          {signed: order, record: data(ordered, "approved", "declined")},
		"somebody else decided":  {signed: order, record: data(ordered, "tok_ann", "tok_bob")},
		"other labels":           {signed: order, record: data(ordered, `"reason"`, `"labels":{"to":"b"},"reason"`)},
		"a member that is new":   {signed: order, record: data(ordered, `"reason"`, `"amount":"95","reason"`)},
		"details twice":          {signed: order, record: data(ordered, `"reason"`, `"details":{"amount":"95"},"reason"`)},
		"details in capitals":    {signed: order, record: data(ordered, `"reason"`, `"Details":{"amount":"95"},"reason"`)},
		"another id beside":      {signed: order, record: with(ordinary, func(r *journal.Record) { r.About = []string{"order-2", "order-1"} })},
		"another id":             {signed: order, record: with(ordinary, func(r *journal.Record) { r.About = []string{"order-2"} })},
		"before it was shown":    {signed: order, record: with(ordinary, func(r *journal.Record) { r.At = 4999 })},
		"long after":             {signed: order, record: with(ordinary, func(r *journal.Record) { r.At = 5000 + 3_600_001 })},
		"another token's":        {signed: order, record: ordinary, by: "tok_bob"},
		"another URL":            {signed: change, record: data(changed, "https://a", "https://b")},
		"another merchant":       {signed: change, record: with(data(changed, "shop", "shup"), func(r *journal.Record) { r.About[1] = "shup" })},
		"another challenge":      {signed: added, record: passkeys("passkey.added", `,"challenge":"d"`)},
		"another passkey less":   {signed: passkey.Statement{Act: removed.Act, At: 5000, Token: "tok_ann", ID: "tok_ann", About: removed.About}, record: passkeys("passkey.removed", "")},
		"an act that has no row": {signed: passkey.Statement{Act: "x", At: 5000, Token: "tok_ann", ID: "order-1", About: []byte(`{}`)}, record: with(ordinary, func(r *journal.Record) { r.Kind = "x" })},
	} {
		d, l := open(t, dialects[0].url(t))
		text := must(of.signed.Text())(t)
		evidence := must(passkey.EvidenceOf(text, key, device.Sign(passkey.Encode(passkey.Challenge(text)))))(t)
		by := "tok_ann"
		if of.by != "" {
			by = of.by
		}
		acting := journal.Signed(journal.By(ctx, journal.Actor{Token: by, Name: "Ann & Co"}), of.signed.Act, evidence)
		if err := d.Write(acting, func(ctx context.Context, t *db.Tx) error { return journal.Add(ctx, t, of.record) }); err != nil {
			t.Fatal(err)
		}
		proof := file(t, must(l.Evidence(ctx, journal.Subject{IDs: of.record.About[:1]}, 0))(t))
		for what, file := range map[string][]byte{"proof": proof, "export": export(t, l, 1, 1)} {
			v, err := verify(file, l.Key(), nil)
			if of.good != (err == nil) || !of.good && !errors.Is(err, passkey.ErrAssertion) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if of.good && what == "proof" {
				var shown strings.Builder
				if err := journal.Show(&shown, v.Records); err != nil || !strings.Contains(shown.String(), `signed with the passkey "`+key.ID+`" of "`+page+`":`) {
					t.Errorf("%s: %v, %s", name, err, shown.String())
				}
			}
		}
	}
}

// TestExported: an export is acknowledged by what only the export says, and the log compares
// it with itself.
func TestExported(t *testing.T) {
	d, l := open(t, dbtest.SQLite(t))
	add(t, d, 0, 7)
	v := must(verify(export(t, l, 1, 5), l.Key(), nil))(t)
	good := client.AuditExport{First: 1, Last: 5, Checkpoint: v.Signed, Digest: v.Digest}
	other, ol := open(t, dbtest.SQLite(t))
	add(t, other, 1, 9)
	foreign := must(ol.Checkpoint(ctx, 0))(t).Checkpoint
	for name, of := range map[string]struct {
		change func(*client.AuditExport)
		want   error
	}{
		"nothing but numbers":        {func(x *client.AuditExport) { x.Checkpoint, x.Digest = "", "" }, journal.ErrOtherCheckpoint},
		"no digest":                  {func(x *client.AuditExport) { x.Digest = strings.Repeat("0", 64) }, journal.ErrOther},
		"records that it has not":    {func(x *client.AuditExport) { x.Last = 6 }, journal.ErrOther},
		"records that nobody signed": {func(x *client.AuditExport) { x.Last = 8 }, journal.ErrOtherCheckpoint},
		"of another log":             {func(x *client.AuditExport) { x.Checkpoint = foreign }, journal.ErrOtherCheckpoint},
		"after a gap":                {func(x *client.AuditExport) { *x = exportOf(t, l, 3, 5) }, journal.ErrGap},
	} {
		x := good
		of.change(&x)
		if _, err := l.Exported(ctx, x, 5); !errors.Is(err, of.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 {
		if upto := must(l.Exported(ctx, good, 5))(t); upto != 5 {
			t.Errorf("up to %d", upto)
		}
	}
	if upto := must(l.Exported(ctx, exportOf(t, l, 4, 7), 5))(t); upto != 7 {
		t.Errorf("up to %d", upto)
	}
	if page := must(l.Page(ctx, 7, 10))(t); len(page.Entries) != 2 || page.Exported != 7 || !strings.Contains(string(page.Entries[0].Record), v.Digest) {
		t.Errorf("%+v", page)
	}
}

func exportOf(t *testing.T, l *journal.Log, from, to int64) client.AuditExport {
	t.Helper()
	v := must(verify(export(t, l, from, to), l.Key(), nil))(t)
	return client.AuditExport{First: from, Last: to, Checkpoint: v.Signed, Digest: v.Digest}
}
