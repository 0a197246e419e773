package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestOpenPublicStrict returns the public part every way in which a block can be
// almost right.
func TestOpenPublicStrict(t *testing.T) {
	key := key1024(t)
	k := key.Size()
	good := unb64(t, mustSeal(t, key, PKCS1v15, sample(50)))
	raw := func(b []byte) []byte { return rawPrivate(t, key, b) }
	with := func(b []byte, at int, c byte) []byte { b = bytes.Clone(b); b[at] = c; return b }
	// A block of its own length shows where the padding ends: at k−11 bytes of
	// data there are eight FF, with one byte more there would be seven.
	full := encoded(key, 1, 0xFF, -1, sample(k-11))
	for _, c := range []struct {
		name   string
		sealed []byte
		block  int // -1 for a body that opens
		reason string
	}{
		{"good", good, -1, ""},
		{"eight FF", raw(full), -1, ""},
		{"seven FF", raw(encoded(key, 1, 0xFF, -1, sample(k-10))), 0, reasonShort},
		{"no FF", raw(encoded(key, 1, 0xFF, 0, sample(60))), 0, reasonShort},
		{"data of zeros", raw(encoded(key, 1, 0xFF, -1, make([]byte, 20))), -1, ""},
		{"no data", raw(encoded(key, 1, 0xFF, k-3, nil)), 0, reasonNoData},
		{"no end", raw(append([]byte{0, 1}, bytes.Repeat([]byte{0xFF}, k-2)...)), 0, reasonEnd},
		{"type 2", raw(with(full, 1, 2)), 0, reasonType},
		{"type 0", raw(with(full, 1, 0)), 0, reasonType},
		{"first byte", raw(with(encoded(key, 1, 0xFF, -1, sample(9)), 0, 1)), 0, reasonType},
		{"FE in the padding", raw(with(full, 5, 0xFE)), 0, reasonPadding},
		{"FE at the end of the padding", raw(with(full, 9, 0xFE)), 0, reasonPadding},
		{"01 for the end", raw(with(full, 10, 1)), 0, reasonPadding},
		{"zero", make([]byte, k), 0, reasonType},
		{"one", append(make([]byte, k-1), 1), 0, reasonType},
		{"modulus", bytes.Clone(key.p().n), 0, reasonRange},
		{"all FF", bytes.Repeat([]byte{0xFF}, k), 0, reasonRange},
		{"second block bad", append(bytes.Clone(good), make([]byte, k)...), 1, reasonType},
		{"second block out of range", append(bytes.Clone(good), bytes.Repeat([]byte{0xFF}, k)...), 1, reasonRange},
		{"short chunks", bytes.Join([][]byte{good, good, raw(full), good}, nil), -1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, lengths, err := OpenBlocks(key.Public(), PKCS1v15, b64(c.sealed))
			if c.block < 0 {
				if err != nil || len(plain) == 0 || len(lengths) != len(c.sealed)/k {
					t.Fatalf("it does not open: %d blocks, %v", len(lengths), err)
				}
				return
			}
			if lengths != nil {
				t.Error("lengths came with the error")
			}
			var be *BlockError
			if plain != nil || !errors.As(err, &be) || !errors.Is(err, ErrBlock) {
				t.Fatalf("gave %d bytes, %v; want a BlockError", len(plain), err)
			}
			if be.Block != c.block || be.Reason != c.reason {
				t.Errorf("block %d, %q; want block %d, %q", be.Block, be.Reason, c.block, c.reason)
			}
		})
	}
}

// TestModulusPlus shows that a block and the same block plus the modulus, which
// give the same number, are not both taken.
func TestModulusPlus(t *testing.T) {
	// The sum fits k bytes only where the modulus does not fill them.
	key := oddBitsKey(t)
	block := unb64(t, mustSeal(t, key, PKCS1v15, []byte("one spelling")))
	sum := make([]byte, len(block))
	carry := 0
	for i := len(block) - 1; i >= 0; i-- {
		carry += int(block[i]) + int(key.p().n[i])
		sum[i] = byte(carry)
		carry >>= 8
	}
	if carry != 0 {
		t.Fatal("the sum does not fit")
	}
	must(Open(key.Public(), PKCS1v15, b64(block)))(t)
	var be *BlockError
	if _, err := Open(key.Public(), PKCS1v15, b64(sum)); !errors.As(err, &be) || be.Reason != reasonRange {
		t.Errorf("the block plus the modulus gave %v", err)
	}
	if _, err := Open(key, PKCS1v15, b64(sum)); err != ErrOpen {
		t.Errorf("with the private part it gave %v", err)
	}
}

// TestOpenBase64 lists what is forgiven around and in the Base64, and what not.
func TestOpenBase64(t *testing.T) {
	key := key1024(t)
	plain := sample(200)
	var body string
	// Other plaintexts would do as well, but the body must have + and / in it.
	for i := byte(0); !strings.Contains(body, "+") || !strings.Contains(body, "/"); i++ {
		plain[0] = i
		body = string(mustSeal(t, key, PKCS1v15, plain))
	}
	var lines []string
	for rest := body; rest != ""; {
		n := min(76, len(rest))
		lines = append(lines, rest[:n])
		rest = rest[n:]
	}
	if !strings.HasSuffix(body, "=") {
		t.Fatal("the body needs padding to test it")
	}
	end := strings.TrimRight(body, "=")
	nonCanonical := end[:len(end)-1] + nextChar(end[len(end)-1]) + body[len(end):]
	var parts string
	for sealed := unb64(t, []byte(body)); len(sealed) > 0; sealed = sealed[128:] {
		parts += string(b64(sealed[:128]))
	}
	for _, c := range []struct {
		name, body string
		want       error
	}{
		{"as it is", body, nil},
		{"white space around", " \t\r\n" + body + "\n\n \t", nil},
		{"CRLF lines", strings.Join(lines, "\r\n"), nil},
		{"LF lines", strings.Join(lines, "\n"), nil},
		{"line end in the padding", body[:len(body)-1] + "\r\n=", nil},
		{"space lines", strings.Join(lines, " "), ErrBase64},
		{"space for plus", strings.ReplaceAll(body, "+", " "), ErrBase64},
		{"tab inside", body[:8] + "\t" + body[8:], ErrBase64},
		{"URL alphabet", strings.NewReplacer("+", "-", "/", "_").Replace(body), ErrBase64},
		{"no padding", strings.TrimRight(body, "="), ErrBase64},
		{"more padding", body + "=", ErrBase64},
		{"not canonical", nonCanonical, ErrBase64},
		{"blocks encoded one by one", parts, ErrBase64},
		{"percent-encoded", strings.ReplaceAll(body, "+", "%2B"), ErrBase64},
		{"NUL", body + "\x00", ErrBase64},
		{"quoted", `"` + body + `"`, ErrBase64},
		{"not ASCII", body[:8] + "é" + body[8:], ErrBase64},
		{"one group less", body[4:], ErrLength},
		{"one group more", "AAAA" + body, ErrLength},
		{"one group", "AAAA", ErrLength},
		{"empty", "", ErrEmpty},
		{"only white space", " \r\n\t", ErrEmpty},
		{"only padding", "====", ErrBase64},
		{"too large", strings.Repeat("A", MaxBody+4), ErrTooLarge},
		{"too large by white space", body + strings.Repeat("\n", MaxBody), ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Open(key.Public(), PKCS1v15, []byte(c.body))
			if !errors.Is(err, c.want) || c.want == nil && !bytes.Equal(got, plain) {
				t.Errorf("public part: %d bytes, %v; want %v", len(got), err, c.want)
			}
			if c.want == nil {
				return
			}
			if got != nil {
				t.Error("plaintext came with the error")
			}
			if _, err := Open(key, PKCS1v15, []byte(c.body)); !errors.Is(err, c.want) {
				t.Errorf("private part: %v; want %v", err, c.want)
			}
		})
	}
}

// nextChar returns a character of the alphabet that differs from c in the last bit,
// which is unused before any padding.
func nextChar(c byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	return string(alphabet[strings.IndexByte(alphabet, c)^1])
}

func TestOpenRefuses(t *testing.T) {
	key := key1024(t)
	body := mustSeal(t, key, PKCS1v15, []byte("x"))
	for _, c := range []struct {
		name string
		key  *Key
		p    Padding
		want error
	}{
		{"nil key", nil, PKCS1v15, ErrKeyMissing},
		{"zero key", &Key{}, PKCS1v15, ErrKeyMissing},
		{"unknown padding", key, Padding(-1), ErrPadding},
		{"OAEP with the public part", key.Public(), OAEP, ErrDirection},
	} {
		if got, err := Open(c.key, c.p, body); !errors.Is(err, c.want) || got != nil {
			t.Errorf("%s: %d bytes, %v; want %v", c.name, len(got), err, c.want)
		}
	}
}

// TestOpenPrivateUniform returns the private part every kind of bad block and asks
// for the very same error, and for the same number of operations.
func TestOpenPrivateUniform(t *testing.T) {
	key := key1024(t)
	k := key.Size()
	good := unb64(t, mustSeal(t, key.Public(), PKCS1v15, []byte("good")))
	goodOAEP := unb64(t, mustSeal(t, key.Public(), OAEP, []byte("good")))
	raw := func(b []byte) []byte { return rawPublic(t, key, b) }
	noData := raw(encoded(key, 2, 0x55, k-3, nil))
	noDataOAEP := must(sealBlock(key.Public(), OAEP, nil, nil))(t)
	bad := map[string][]byte{
		"type 1":          raw(encoded(key, 1, 0xFF, -1, []byte("x"))),
		"by private part": unb64(t, mustSeal(t, key, PKCS1v15, []byte("x"))),
		"seven":           raw(encoded(key, 2, 0x55, 7, sample(60))),
		"no end":          raw(append([]byte{0, 2}, bytes.Repeat([]byte{0x55}, k-2)...)),
		"first byte":      raw(append([]byte{1}, encoded(key, 2, 0x55, -1, []byte("x"))[1:]...)),
		"no data":         noData,
		"no data, OAEP":   noDataOAEP,
		"zero":            make([]byte, k),
		"modulus":         bytes.Clone(key.p().n),
		"all FF":          bytes.Repeat([]byte{0xFF}, k),
		"garbage":         append([]byte{0}, bytes.Repeat([]byte{0xA7}, k-1)...),
		"another pair":    append([]byte{0}, unb64(t, mustSeal(t, other1024(t).Public(), PKCS1v15, []byte("x")))[1:]...),
	}
	for name, block := range bad {
		for _, p := range []Padding{PKCS1v15, OAEP} {
			whole := good
			if p == OAEP {
				whole = goodOAEP
			}
			for i, blocks := range [][][]byte{{block}, {block, whole, whole}, {whole, block, whole}, {whole, whole, block}, {block, block, block}} {
				t.Run(fmt.Sprintf("%s/%v/%d", name, p, i), func(t *testing.T) {
					if got, lengths, err := OpenBlocks(key, p, b64(blocks...)); err != ErrOpen || got != nil || lengths != nil {
						t.Errorf("gave %d bytes in %d blocks, %v; want ErrOpen itself and nothing else", len(got), len(lengths), err)
					}
					runs := 0
					_, _, err := Worker{}.openPrivate(key, bytes.Join(blocks, nil), func(b []byte) ([]byte, error) {
						runs++
						if !inRange(b, key.p().n) {
							t.Error("a block above the modulus reached the RSA library, which returns at once")
						}
						return key.p().openPrivate(p, b)
					})
					if runs != len(blocks) || err != ErrOpen {
						t.Errorf("%d of %d blocks were run, %v", runs, len(blocks), err)
					}
				})
			}
		}
	}
	got, lengths, err := OpenBlocks(key, PKCS1v15, b64(good, good))
	if err != nil || string(got) != "goodgood" || !slices.Equal(lengths, []int{4, 4}) {
		t.Errorf("two good blocks: %q in %v, %v", got, lengths, err)
	}
}

// TestWorkBound shows that the largest body costs no more exponentiations than it
// has blocks, and none where the first block is out of range.
func TestWorkBound(t *testing.T) {
	for _, bits := range []int{1024, 2048} {
		key := testKey(t, fmt.Sprint(bits), bits)
		if blocks := MaxBody / 4 * 3 / key.Size(); blocks*key.Size() > MaxBody {
			t.Errorf("%d bits: %d blocks", bits, blocks)
		}
		if n := key.Blocks(PKCS1v15, key.MaxPlaintext(PKCS1v15)); n != MaxBody/4*3/key.Size() {
			t.Errorf("%d bits: the largest plaintext takes %d blocks", bits, n)
		}
	}
	key := key1024(t)
	sealed := make([]byte, MaxBody/4*3)
	for i, c := range []byte{0x00, 0x41, 0xFF} {
		for j := range sealed {
			sealed[j] = c
		}
		var be *BlockError
		if _, err := Open(key.Public(), PKCS1v15, b64(sealed)); !errors.As(err, &be) || be.Block != 0 {
			t.Errorf("filling %d: %v; want block 0 to end it", i, err)
		}
	}
}
