package admin

import (
	"context"
	"errors"
	"testing"

	"countersign/client"
)

// TestKeysAreMadeAside: keys are made and checked where the sending goes first, and a call that
// finds no place there is refused until later.
func TestKeysAreMadeAside(t *testing.T) {
	h, ctx := sqlite(t), t.Context()
	h.merchant("shop")
	c := h.client(client.RoleAdmin)
	made := client.NewMerchant{ID: "other", Key: &client.KeySpec{Bits: 4096}, MerchantSettings: client.MerchantSettings{NotifyURL: "https://a.example/n", WithdrawURL: "https://a.example/w"}}
	calls := map[string]func() error{
		"a merchant": func() error { _, err := c.CreateMerchant(ctx, made); return err },
		"a given key": func() error {
			_, err := c.StageRotation(ctx, "shop", client.NewRotation{Key: &client.KeySpec{PrivateKey: "x"}})
			return err
		},
		"a second set": func() error {
			_, err := c.StageRotation(ctx, "shop", client.NewRotation{Key: &client.KeySpec{Bits: 4096}})
			return err
		},
		"for answers": func() error {
			_, err := c.StageRotation(ctx, "shop", client.NewRotation{ResponseKey: &client.KeySpec{Bits: 4096}})
			return err
		},
		"what is there": func() error {
			_, err := c.StageRotation(ctx, "shop", client.NewRotation{ResponseKey: &client.KeySpec{PrivateKey: "x"}})
			return err
		},
	}
	h.server.LongWork = func(context.Context, func()) error { return errors.New("full") }
	for name, call := range calls {
		if err := call(); !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("%s without a place: %v", name, err)
		}
	}
	ran := 0
	h.server.LongWork = func(_ context.Context, f func()) error { ran++; f(); return nil }
	if err := calls["a given key"](); !errors.Is(err, client.ErrInvalid) || ran != 1 {
		t.Errorf("%d times, %v", ran, err)
	}
	made.Key.Bits, made.ResponseKey = 1024, &client.KeySpec{Bits: 1024}
	if err := calls["a merchant"](); err != nil || ran != 3 {
		t.Errorf("%d times, %v", ran, err)
	}
}
