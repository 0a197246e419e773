package admin

import (
	"errors"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/outbox"
)

// TestBlocksAreThoseOfTheBody: what is shown without sealing is what an explanation of the
// sealed body shows, in every scheme.
func TestBlocksAreThoseOfTheBody(t *testing.T) {
	payload, err := (&countersign.WithdrawalRequest{
		Head:       countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: "t-ü-" + strings.Repeat("x", 150), TenantUserID: "u"},
		CallBackID: "c-" + strings.Repeat("é", 60),
	}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	bound, uuid, err := countersign.Bind(payload, [6]byte{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	pair := testKey()
	for scheme, c := range map[outbox.Scheme]struct {
		seals, opens *envelope.Key
		padding      envelope.Padding
	}{
		outbox.SchemeService:      {pair, pair.Public(), envelope.PKCS1v15},
		outbox.SchemeMerchant:     {pair.Public(), pair, envelope.PKCS1v15},
		outbox.SchemeMerchantOAEP: {pair.Public(), pair, envelope.OAEP},
	} {
		body, err := envelope.Seal(c.seals, c.padding, bound)
		if err != nil {
			t.Fatal(err)
		}
		want := envelope.Explain(c.opens, c.padding, body)
		got := blocksOf(outbox.Merchant{Scheme: scheme, Key: c.seals}, payload, outbox.Attempt{Number: 3, RequestUUID: uuid})
		if got.BlockBytes != want.BlockBytes || got.SealedBytes != want.SealedBytes || len(got.Blocks) != len(want.Blocks) || len(got.Blocks) < 2 {
			t.Fatalf("%s: %+v, want %+v", scheme, got, want)
		}
		text := ""
		for i, b := range got.Blocks {
			w := want.Blocks[i]
			if b.Offset != w.Offset || b.DataBytes != w.DataBytes || b.PaddingBytes != w.PaddingBytes {
				t.Errorf("%s: %+v, want %+v", scheme, b, w)
			}
			text += b.Data
		}
		if !strings.Contains(text, uuid) && !strings.Contains(text, uuid[:8]) {
			t.Errorf("%s: the requestUUID is not in %s", scheme, text)
		}
	}
}

func TestCallbackBlocks(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	w, err := h.client(client.RoleCore).CreateWithdrawal(t.Context(), newWithdrawal("acme", 1))
	if err != nil {
		t.Fatal(err)
	}
	c := h.client(client.RoleViewer)
	if got, err := c.CallbackBlocks(t.Context(), w.Callback, 0); err != nil || got.Attempt != 0 || !strings.Contains(got.Blocks[0].Data, countersign.UnboundUUID) {
		t.Errorf("before the first attempt: %+v, %v", got, err)
	}
	h.decide(w.ID, countersign.DecisionConfirmed)
	for _, attempt := range []int{0, 1} {
		got, err := c.CallbackBlocks(t.Context(), w.Callback, attempt)
		if err != nil || got.Attempt != 1 || got.BlockBytes != 256 || len(got.Blocks) == 0 || !strings.HasPrefix(got.Blocks[0].Data, "{") {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := c.CallbackBlocks(t.Context(), w.Callback, 2); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an attempt that there was not: %v", err)
	}
}
