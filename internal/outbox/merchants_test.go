package outbox

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

// sameMerchant compares all but the keys, and those by what they are.
func sameMerchant(a, b Merchant) bool {
	keys := func(x, y *envelope.Key) bool { return x == nil && y == nil || x != nil && y != nil && x.Equal(y) }
	ok := keys(a.Key, b.Key) && keys(a.ResponseKey, b.ResponseKey)
	a.Key, a.ResponseKey, b.Key, b.ResponseKey = nil, nil, nil, nil
	return ok && reflect.DeepEqual(a, b)
}

func testMerchants(t *testing.T, s *Outbox) {
	m := newMerchant("acme-1_x")
	m.Name, m.Concurrency, m.RatePerSecond, m.ConfirmWithin = "Ärger & Söhne ✓", 7, 2.5, client.Duration(90*time.Second)
	m.CallbackAPIKey, m.ResponseKey = "callback-key", must(envelope.GenerateKey(1024))(t)
	m.Key = testPair().Public()
	m.FinalCodes, m.Body, m.AllowPrivate = []client.CodeRange{{From: 4000, To: 4999}}, client.BodyJSON, new(true)
	m.RetryNotify = &client.Schedule{Delays: []client.Duration{0, client.Duration(time.Second)}, Every: client.Duration(5 * time.Second)}
	made := must(s.CreateMerchant(ctx, m, 1000))(t)
	if made.Version != 1 || made.Created != 1000 || made.Updated != 1000 || made.State != client.MerchantActive ||
		made.Of(client.KeyRequest).Fingerprint != m.Key.Fingerprint() || made.Of(client.KeyResponse).Fingerprint != m.ResponseKey.Fingerprint() {
		t.Errorf("made %+v", made)
	}
	if got := must(s.Merchant(ctx, m.ID))(t); !sameMerchant(got, made) {
		t.Errorf("read\n%+v\nafter making\n%+v", got, made)
	}
	if got := must(s.Merchant(ctx, m.ID))(t); got.Key.HasPrivate() {
		t.Error("a public part came back with a private one")
	}

	changed := must(s.UpdateMerchant(ctx, m.ID, 2000, func(m *Merchant) error {
		if m.APIKey.Reveal() != "api-key-of-acme-1_x" {
			t.Error("the secrets are not open")
		}
		m.ID, m.Created, m.Version = "other", 5, 99 // can't be changed
		m.APIKey, m.CallbackAPIKey, m.ResponseKey, m.Key = "new-api-key", "", nil, testPair()
		m.Concurrency, m.NotifyURL = 9, "https://new.example/"
		return nil
	}))(t)
	if changed.ID != m.ID || changed.Version != 2 || changed.Created != 1000 || changed.Updated != 2000 || changed.Of(client.KeyResponse).Fingerprint != changed.Of(client.KeyRequest).Fingerprint {
		t.Errorf("changed %+v", changed)
	}
	if got := must(s.Merchant(ctx, m.ID))(t); !sameMerchant(got, changed) || got.CallbackAPIKey != "" || got.ResponseKey != nil {
		t.Errorf("read\n%+v\nafter changing\n%+v", got, changed)
	}
	stop := errors.New("stop")
	dbtest.Fails(s.UpdateMerchant(ctx, m.ID, 3000, func(*Merchant) error { return stop }))(t, stop, "")
	dbtest.Fails(s.UpdateMerchant(ctx, "nobody", 3000, func(*Merchant) error { return nil }))(t, db.ErrNotFound, "")

	for i := range 5 {
		must(s.CreateMerchant(ctx, newMerchant(fmt.Sprint("z", i)), 1))(t)
	}
	var ids []string
	for after := ""; ; {
		list := must(s.Merchants(ctx, nil, after, 2))(t)
		if len(list) == 0 {
			break
		}
		for _, m := range list {
			ids = append(ids, m.ID)
			if m.APIKey != "" || m.CallbackAPIKey != "" || m.Key != nil || m.ResponseKey != nil {
				t.Errorf("the list gives secrets of %s", m.ID)
			}
		}
		after = list[len(list)-1].ID
	}
	if got := strings.Join(ids, " "); got != "acme-1_x z0 z1 z2 z3 z4" {
		t.Errorf("listed %s", got)
	}
}

func testMerchantUpdates(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	var wg sync.WaitGroup
	const callers, each = 4, 5
	for range callers {
		wg.Go(func() {
			for range each {
				if _, err := s.UpdateMerchant(ctx, "m0", 5, func(m *Merchant) error { m.Concurrency++; return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if m := must(s.Merchant(ctx, "m0"))(t); m.Concurrency != 1000+callers*each || m.Version != 1+callers*each {
		t.Errorf("concurrency %d, version %d", m.Concurrency, m.Version)
	}
}

func testMerchantState(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	must(s.Ingest(ctx, []NewCallback{deposit("m0", "a", 10)}, 10))(t)
	m := must(s.SetMerchantState(ctx, "m0", client.MerchantPaused, "asked for it", 20))(t)
	if m.State != client.MerchantPaused || m.PausedReason != "asked for it" || m.Version != 2 || m.Updated != 20 {
		t.Errorf("paused: %+v", m)
	}
	if again := must(s.SetMerchantState(ctx, "m0", client.MerchantPaused, "asked for it", 30))(t); again.Version != 2 || again.Updated != 20 {
		t.Errorf("paused again: %+v", again)
	}
	if got := claim(t, s, countersign.LaneNotify, 40, 10); len(got) != 0 {
		t.Errorf("claimed %d of a paused merchant", len(got))
	}
	if due := must(s.NextDue(ctx, countersign.LaneNotify, 0))(t); due != db.Never {
		t.Errorf("something is due at %d", due)
	}
	m = must(s.SetMerchantState(ctx, "m0", client.MerchantActive, "unused", 50))(t)
	if got := must(endtest.Alarms(ctx, s))(t); len(got) != 1 || got[0].Kind != client.AlarmControlChanged || got[0].Merchant != "m0" || got[0].Subject != "the pause (version 3) was ended" {
		t.Errorf("alarms %+v", got)
	}
	if m.State != client.MerchantActive || m.PausedReason != "" || m.Version != 3 {
		t.Errorf("resumed: %+v", m)
	}
	got := claim(t, s, countersign.LaneNotify, 60, 10)
	if len(got) != 1 || got[0].MerchantVersion != 3 {
		t.Errorf("after resuming claimed %+v", got)
	}
	dbtest.Fails(s.SetMerchantState(ctx, "nobody", client.MerchantPaused, "", 5))(t, db.ErrNotFound, "")
	dbtest.Fails(s.SetMerchantState(ctx, "m0", "asleep", "", 5))(t, db.ErrInvalid, "")
}

// testSecretsInPlace moves sealed values about, as somebody could who writes to the database without the master key.
func testSecretsInPlace(t *testing.T, s *Outbox) {
	ids := addMerchants(t, s, 5, func(m *Merchant) { m.CallbackAPIKey = "callback-" + m.APIKey })
	for i, set := range []string{`secrets = other_secrets`, `data_key = m.data_key, secrets = m.secrets`,
		`secret_version = merchants.secret_version + 1`, `secrets = ''`} {
		if s.Dialect().ConcurrentWriters {
			set = strings.Replace(set, `''`, `''::bytea`, 1)
		} else {
			set = strings.Replace(set, `''`, `X''`, 1)
		}
		set = strings.Replace(set, `= other_secrets`, `= merchants.other_secrets`, 1)
		exec(t, s, `UPDATE merchants SET `+set+` FROM merchants m WHERE m.id = 'm4' AND merchants.id = $1`, ids[i])
		if m, err := s.Merchant(ctx, ids[i]); err == nil || strings.Contains(err.Error(), "api-key-of") {
			t.Errorf("%s: still opens, API key %d bytes, %v", set, len(m.APIKey.Reveal()), err)
		}
	}
	must(s.Merchant(ctx, "m4"))(t)
}

// exec runs a statement of the test's own.
func exec(t testing.TB, s *Outbox, text string, args ...any) int64 {
	t.Helper()
	var n int64
	ok(t, s.Write(ctx, func(ctx context.Context, x *db.Tx) (err error) {
		n, err = x.Exec(ctx, text, args...)
		return err
	}))
	return n
}

// claim claims with a lease of 1,000 ms.
func claim(t testing.TB, s *Outbox, lane countersign.Lane, now db.Millis, most int) []Claimed {
	t.Helper()
	return must(s.Claim(ctx, ClaimRequest{Lane: lane, Now: now, LeaseUntil: now + 1000, Max: most}))(t)
}

// since returns since when each kind of key is there.
func since(s KeySet) (list [4]db.Millis) {
	for i, kind := range client.Values[client.KeyKind]() {
		list[i] = s.Of(kind).Since
	}
	return list
}

// testKeySince: a key has the time of its change, and no other change moves it.
func testKeySince(t *testing.T, s *Outbox) {
	m := newMerchant("aged")
	m.CallbackAPIKey, m.ResponseKey = "", nil
	must(s.CreateMerchant(ctx, m, 1000))(t)
	want := [4]db.Millis{1000, 1000, 1000}
	for i, change := range []func(*Merchant){
		func(m *Merchant) { m.Name, m.Concurrency = "other", 3 },
		func(m *Merchant) { m.CallbackAPIKey, want[3] = "first", 3000 },
		func(m *Merchant) { m.APIKey, want[2] = "another", 4000 },
		func(m *Merchant) {
			m.ResponseKey, want[1] = must(envelope.GenerateKey(1024))(t), 5000
		},
		func(m *Merchant) { m.Key, want[0] = must(envelope.GenerateKey(1024))(t), 6000 },
		func(m *Merchant) { m.CallbackAPIKey, want[3] = "", 0 },
		func(m *Merchant) { m.Key, m.ResponseKey = m.ResponseKey, nil; want[0] = 8000 },
	} {
		must(s.UpdateMerchant(ctx, m.ID, db.Millis(2000+1000*i), func(m *Merchant) error { change(m); return nil }))(t)
		if got := must(s.Merchant(ctx, m.ID))(t); since(got.KeySet) != want {
			t.Errorf("after change %d: %+v, want %+v", i, got.Shown, want)
		}
		if got := must(s.Merchants(ctx, []string{m.ID}, "", 1))(t); since(got[0].KeySet) != want {
			t.Errorf("in the list, after change %d: %+v, want %+v", i, got[0].Shown, want)
		}
	}
}
