package countersign_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign"
)

// template is a canonical deposit that is not bound yet.
func template(t failer, change func(*countersign.Deposit)) []byte {
	d := wantDeposit()
	d.RequestUUID = countersign.UnboundUUID
	if change != nil {
		change(d)
	}
	return must(d.Marshal())(t)
}

// bind returns plain with a requestUUID that is bound to it.
func bind(t failer, plain []byte, random [6]byte) []byte {
	t.Helper()
	bound, _, err := countersign.Bind(plain, random)
	ok(t, err)
	return bound
}

func TestBind(t *testing.T) {
	random := [6]byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xab}
	tmpl := template(t, nil)
	before := bytes.Clone(tmpl)
	bound, id, err := countersign.Bind(tmpl, random)
	ok(t, err)
	if !bytes.Equal(tmpl, before) {
		t.Error("Bind changed its input")
	}
	if !strings.HasPrefix(id, "01234567-89ab-8") || !strings.ContainsRune("89ab", rune(id[19])) || len(id) != 36 {
		t.Errorf("%s is no UUID of version 8 that begins with the random bits", id)
	}
	if want := strings.Replace(string(tmpl), countersign.UnboundUUID, id, 1); string(bound) != want {
		t.Errorf("bound to\n%s, want\n%s", bound, want)
	}
	if got := countersign.CheckBinding(bound); got != countersign.BindingHolds {
		t.Errorf("binding %s", got)
	}
	c, err := countersign.ParseCallback(bound, countersign.ParseOptions{})
	if err != nil || c.UUID() != id {
		t.Errorf("parsed to %+v, %v", c, err)
	}

	// The rule of PROTOCOL.md, written a second time.
	sum := sha256.Sum256([]byte("countersign request binding 1\n" + string(random[:]) + string(tmpl)))
	h := []byte(hex.EncodeToString(sum[:]))
	digits := strings.ReplaceAll(id, "-", "")
	if digits[13:16] != string(h[1:4]) || digits[17:] != string(h[5:20]) {
		t.Errorf("%s is not made from %s", digits, h)
	}

	// Bound again, whatever the requestUUID was before.
	again, id2, err := countersign.Bind(bound, random)
	if err != nil || id2 != id || !bytes.Equal(again, bound) {
		t.Errorf("bound again: %s, %v", id2, err)
	}
}

func TestBindRefuses(t *testing.T) {
	for _, in := range []string{
		``, `{}`, `[]`, `{"requestUUID":7}`, `{"requestUUID":"short"}`, `{"requestUUID":null}`,
		`{"requestUUID":"00000000000000000000000000000000000é"}`,
		`{"requestUUID":"0000000000000000000000000000000\u0030"}`,
		`{"a":{"requestUUID":"` + countersign.UnboundUUID + `"}}`,
	} {
		b, id, err := countersign.Bind([]byte(in), [6]byte{})
		if !errors.Is(err, countersign.ErrMalformed) {
			t.Errorf("bound %s to %s, %s, %v", in, b, id, err)
		}
		if got := countersign.CheckBinding([]byte(in)); got != countersign.BindingAbsent {
			t.Errorf("%s: binding %s", in, got)
		}
	}
}

func TestCheckBindingOfOthers(t *testing.T) {
	for id, want := range map[string]countersign.Binding{
		"47b8d46c-12c9-4d64-98a0-ad1fbb6d0c29": countersign.BindingAbsent, // version 4
		"47b8d46c-12c9-8d64-98a0-ad1fbb6d0c29": countersign.BindingBroken, // version 8 of another maker
		"47b8d46c-12c9-8d64-c8a0-ad1fbb6d0c29": countersign.BindingAbsent, // another variant
		"47B8D46C-12C9-8D64-98A0-AD1FBB6D0C29": countersign.BindingAbsent, // upper case
		"47b8d46c012c9-8d64-98a0-ad1fbb6d0c29": countersign.BindingAbsent,
		"not a UUID":                           countersign.BindingAbsent,
	} {
		b := template(t, func(d *countersign.Deposit) { d.RequestUUID = id })
		if got := countersign.CheckBinding(b); got != want {
			t.Errorf("%s: binding %s, want %s", id, got, want)
		}
	}
}

// TestEveryChangedByte changes each byte of a bound plaintext to every other
// value of one bit: nothing but the original passes for bound.
func TestEveryChangedByte(t *testing.T) {
	bound := bind(t, template(t, nil), [6]byte{1, 2, 3, 4, 5, 6})
	for i := range bound {
		for bit := range 8 {
			changed := bytes.Clone(bound)
			changed[i] ^= 1 << bit
			if countersign.CheckBinding(changed) == countersign.BindingHolds {
				t.Fatalf("byte %d, bit %d changed, and the binding holds", i, bit)
			}
		}
	}
}

// chunks cuts as the sealer does.
func chunks(b []byte, size int) [][]byte {
	return slices.Collect(slices.Chunk(b, size))
}

// uuidFirst returns two deposits in the order of members that most services use.
func uuidFirst() (small, large []byte) {
	write := func(tracking, uuid, amount string) []byte {
		return fmt.Appendf(nil, `{"type":1,"requestUUID":"%s","trackingId":"%s","tenantUserId":"7","business":0,`+
			`"chainName":"TRON","symbol":"USDT","txId":"ab12","amount":"%s","fromAddress":"TA","toAddress":"TB",`+
			`"riskLevelFrom":1,"riskLevelTo":1,"txIndex":-1,"newAddress":"TB"}`, uuid, tracking, amount)
	}
	return write("T1", "47b8d46c-12c9-4d64-98a0-ad1fbb6d0c29", "1.0"), write("T2", "0b7a1d15-3c46-4f0f-8f5e-6a0f1f4a2b11", "9.9")
}

// TestGraftWithoutBinding shows the attack that the binding is for: the first
// chunk of one deposit and the rest of another parse as a third deposit that
// the service never sent.
func TestGraftWithoutBinding(t *testing.T) {
	small, large := uuidFirst()
	graft := bytes.Join([][]byte{chunks(small, 117)[0], bytes.Join(chunks(large, 117)[1:], nil)}, nil)
	c, err := countersign.ParseCallback(graft, countersign.ParseOptions{})
	if err != nil {
		t.Fatalf("the graft does not parse, so this test shows nothing: %v", err)
	}
	if d := c.(*countersign.Deposit); d.TrackingID != "T1" || d.Amount.String() != "9.9" {
		t.Fatalf("the graft is %+v", d)
	}
	// The same graft of two bound plaintexts is found out.
	b1, b2 := bind(t, small, [6]byte{1}), bind(t, large, [6]byte{2})
	graft = bytes.Join([][]byte{chunks(b1, 117)[0], bytes.Join(chunks(b2, 117)[1:], nil)}, nil)
	if got := countersign.CheckBinding(graft); got != countersign.BindingBroken {
		t.Errorf("binding of the graft: %s", got)
	}
}

// TestSplices draws bound callbacks, recombines their chunks in any way, and
// accepts as bound only what was sent.
func TestSplices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{53, 117, 245}).Draw(t, "size")
		sent := map[string]bool{}
		var pool [][]byte
		for i := range rapid.IntRange(1, 4).Draw(t, "callbacks") {
			b := bind(t, template(t, func(d *countersign.Deposit) {
				d.TrackingID = fmt.Sprint("T", i)
				d.Amount = mustAmount(amountText().Draw(t, "amount"))
				d.TenantUserID = rapid.StringMatching(`[a-z"\\é]{1,40}`).Draw(t, "user")
			}), [6]byte{byte(i), 9})
			sent[string(b)] = true
			pool = append(pool, chunks(b, size)...)
		}
		n := rapid.IntRange(1, len(pool)+1).Draw(t, "length")
		var spliced []byte
		for range n {
			spliced = append(spliced, rapid.SampledFrom(pool).Draw(t, "chunk")...)
		}
		if got := countersign.CheckBinding(spliced); (got == countersign.BindingHolds) != sent[string(spliced)] {
			t.Fatalf("binding %s of %q", got, spliced)
		}
	})
}

// TestCutSwapRepeat makes the small changes that random splices rarely draw.
func TestCutSwapRepeat(t *testing.T) {
	bound := bind(t, template(t, nil), [6]byte{7})
	parts := chunks(bound, 117)
	check := func(what string, parts [][]byte) {
		t.Helper()
		joined := bytes.Join(parts, nil)
		if countersign.CheckBinding(joined) == countersign.BindingHolds != bytes.Equal(joined, bound) {
			t.Errorf("%s", what)
		}
	}
	check("whole", parts)
	for i := range parts {
		check(fmt.Sprint("without chunk ", i), append(append([][]byte{}, parts[:i]...), parts[i+1:]...))
		check(fmt.Sprint("chunk twice ", i), append(append(append([][]byte{}, parts[:i+1]...), parts[i]), parts[i+1:]...))
		for j := range i {
			swapped := append([][]byte{}, parts...)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			check(fmt.Sprint("swapped ", i, j), swapped)
		}
	}
}
