package store

import (
	"errors"
	"fmt"
	"testing"
)

func testTokens(t *testing.T, s *Store) {
	if must(s.HasTokens(ctx))(t) {
		t.Error("an empty database has tokens")
	}
	a := Token{ID: "a", Name: "first", Role: RoleOperator, Created: 100}
	b := Token{ID: "b", Name: "second", Role: RoleViewer, Created: 50}
	for i, token := range []Token{a, b} {
		if err := s.CreateToken(ctx, token, [32]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		token Token
		hash  byte
		is    error
	}{
		"taken id":   {a, 9, ErrConflict},
		"taken hash": {Token{ID: "c", Role: RoleIngest}, 0, ErrConflict},
		"no role":    {Token{ID: "d"}, 9, ErrInvalid},
		"no id":      {Token{Role: RoleIngest}, 9, ErrInvalid},
	} {
		if err := s.CreateToken(ctx, c.token, [32]byte{c.hash}); !errors.Is(err, c.is) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := must(s.TokenByHash(ctx, [32]byte{0}))(t); got != a {
		t.Errorf("got %+v", got)
	}
	if _, err := s.TokenByHash(ctx, [32]byte{9}); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown hash gives %v", err)
	}
	for i := range 2 {
		if err := s.RevokeToken(ctx, "a", Millis(200+i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.TokenByHash(ctx, [32]byte{0}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a revoked token gives %v", err)
	}
	a.Revoked = 200
	if got := must(s.Tokens(ctx))(t); len(got) != 2 || got[0] != b || got[1] != a {
		t.Errorf("listed %+v", got)
	}
	if err := s.RevokeToken(ctx, "nothing", 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("revoking nothing gives %v", err)
	}
	if !must(s.HasTokens(ctx))(t) {
		t.Error("there are none")
	}
}

func testStats(t *testing.T, s *Store) {
	addMerchants(t, s, 2, nil)
	ended(t, s, "refused", CallbackRefused, 100)
	for i := range 3 {
		ended(t, s, fmt.Sprint("exhausted", i), CallbackExhausted, 100)
	}
	settleAll(t, s, []Claimed{claimOne(t, s, "accepted", 102)}, 102)
	claimOne(t, s, "sending", 103)
	for i := range 4 {
		must(s.Ingest(ctx, []NewCallback{deposit(fmt.Sprint("m", i%2), fmt.Sprint("pending", i), Millis(500-i))}, 104))(t)
	}
	w, _ := asked(t, s, "cancelled", 9000, 200)
	must(s.CancelWithdrawal(ctx, w.ID, 201))(t)
	asked(t, s, "asked", 9000, 202)
	got := map[string]int64{}
	for _, n := range must(s.Stats(ctx))(t) {
		got[n.Lane.String()+" "+string(n.State)] = n.Count
		want := Never
		if n.Lane == LaneNotify && n.State == CallbackPending {
			want = 497
		}
		if n.OldestDue != want {
			t.Errorf("oldest of %s %s is due at %d, want %d", n.Lane, n.State, n.OldestDue, want)
		}
	}
	want := map[string]int64{
		"notify pending": 4, "notify sending": 1, "notify accepted": 1, "notify refused": 1, "notify exhausted": 3, "notify cancelled": 0,
		"withdraw pending": 0, "withdraw sending": 1, "withdraw accepted": 0, "withdraw refused": 0, "withdraw exhausted": 0, "withdraw cancelled": 1,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
	if now := must(s.ServerNow(ctx))(t); now < 1_700_000_000_000 {
		t.Errorf("the server's clock says %d", now)
	}
	if err := s.Ping(ctx); err != nil {
		t.Error(err)
	}
}
