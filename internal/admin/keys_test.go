package admin

import (
	"context"
	"errors"
	"testing"

	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// TestKeysAreMadeAside: keys are made and checked where the sending goes first, and a call that
// finds no place there is refused until later.
func TestKeysAreMadeAside(t *testing.T) {
	h, ctx := sqlite(t), t.Context()
	h.merchant("shop")
	c := h.client(client.RoleAdmin)
	made := newMerchant("other")
	made.Key = &client.KeySpec{Bits: 4096}
	h.server.LongWork = func(context.Context, func()) error { return errors.New("full") }
	dbtest.Fails(c.CreateMerchant(ctx, made))(t, client.ErrUnavailable, "")
	for _, key := range []*client.KeySpec{{PrivateKey: "x"}, {Bits: 4096}} {
		dbtest.Fails(c.StageRotation(ctx, "shop", client.NewRotation{Key: key}))(t, client.ErrUnavailable, "")
		dbtest.Fails(c.StageRotation(ctx, "shop", client.NewRotation{ResponseKey: key}))(t, client.ErrUnavailable, "")
	}
	ran := 0
	h.server.LongWork = func(_ context.Context, f func()) error { ran++; f(); return nil }
	dbtest.Fails(c.StageRotation(ctx, "shop", client.NewRotation{Key: &client.KeySpec{PrivateKey: "x"}}))(t, client.ErrInvalid, "")
	made.Key.Bits, made.ResponseKey = 1024, &client.KeySpec{Bits: 1024}
	if must(c.CreateMerchant(ctx, made))(t); ran != 3 {
		t.Errorf("%d times", ran)
	}
}
