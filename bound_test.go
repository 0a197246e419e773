package countersign_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign"
)

const answerUUID = "0f4f9a3e-7c1d-8a5b-9f00-5a7b3c1d2e4f"

func answerOf(callBackID, user, address, chain, symbol, amount string) countersign.WithdrawalAnswer {
	return countersign.WithdrawalAnswer{TenantUserID: user, CallBackID: callBackID, RequestUUID: answerUUID,
		Details: countersign.Details{Address: address, ChainName: chain, Symbol: symbol, Amount: mustAmount(amount)}}
}

// layout is how a sealer that fills every chunk but the last cuts b.
func layout(b []byte, chunk int) (blocks []int) {
	for c := range slices.Chunk(b, chunk) {
		blocks = append(blocks, len(c))
	}
	return blocks
}

func TestMarshalBlocks(t *testing.T) {
	const evm, tron = "0x7054b0f980a7eb5b3a6b3446f3c947d80162775c", "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"
	id := func(n int) string { return strings.Repeat("c", n) }
	for _, test := range []struct {
		name          string
		chunk, blocks int // blocks 0: the details cannot be bound
		answer        countersign.WithdrawalAnswer
	}{
		{"2048 bit", 245, 1, answerOf("order-1", "65515", evm, "ETH", "USDT", "120.5")},
		{"2048 bit, long identifiers", 245, 2, answerOf(id(64), id(64), evm, "POLYGON", "USDT", "120.500000000000000000")},
		{"1024 bit", 117, 2, answerOf("order-1", "65515", tron, "TRON", "USDT", "120.5")},
		{"1024 bit, a UUID and an EVM address", 117, 3, answerOf(id(36), "65515", evm, "ETH", "USDT", "120.500000")},
		{"1024 bit, the longest of the recommended order", 117, 4, answerOf(id(46), "65515", evm, "POLYGON", "USDT", strings.Repeat("9", 15))},
		{"1024 bit, one byte more in the details", 117, 0, answerOf(id(46), "65515", evm, "POLYGON", "USDT", strings.Repeat("9", 16))},
		{"1024 bit, callBackId and address too long for one block", 117, 3, answerOf(id(48), "65515", evm, "ETH", "USDT", "1")},
		{"1024 bit, and an amount too long beside callBackId", 117, 0, answerOf(id(48), "65515", evm, "ETH", "USDT", strings.Repeat("9", 20))},
		{"1024 bit, OAEP", 62, 0, answerOf("order-1", "65515", evm, "ETH", "USDT", "1")},
		{"2048 bit, OAEP", 190, 2, answerOf("order-1", "65515", evm, "ETH", "USDT", "120.5")},
		{"no chunk", 0, 0, answerOf("order-1", "65515", evm, "ETH", "USDT", "1")},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, bound, err := test.answer.MarshalBlocks(test.chunk)
			if err != nil || bound != (test.blocks > 0) {
				t.Fatalf("bound %v, error %v:\n%s", bound, err, b)
			}
			if bound && len(layout(b, test.chunk)) != test.blocks {
				t.Errorf("%d blocks, want %d:\n%q", len(layout(b, test.chunk)), test.blocks, slices.Collect(slices.Chunk(b, test.chunk)))
			}
			if canonical, _ := test.answer.Marshal(); !bound && string(b) != string(canonical) {
				t.Errorf("what cannot be bound is not canonical: %s", b)
			}
		})
	}
	if _, _, err := (countersign.WithdrawalAnswer{}).MarshalBlocks(117); err == nil {
		t.Error("an empty answer is written")
	}
}

// Whatever an answer says, MarshalBlocks says the same, in the canonical form
// wherever that is bound, and DetailsBound agrees with what it promises.
func TestPropertyMarshalBlocks(t *testing.T) {
	text := func(t *rapid.T, name string, most int) string {
		letters := []string{"a", `"`, `\`, "é", "\n"}
		switch name {
		case "address":
			letters = letters[:4]
		case "chainName", "symbol":
			letters = letters[:3]
		}
		return strings.Repeat(rapid.SampledFrom(letters).Draw(t, name), 1+rapid.IntRange(0, most).Draw(t, name+"'s length"))
	}
	packed, failed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		chunk := rapid.SampledFrom([]int{117, 117, 190, 245, 318, 373, 501, 62, 80, 20}).Draw(t, "chunk")
		a := answerOf(text(t, "callBackId", 50), text(t, "tenantUserId", 100), text(t, "address", 60), text(t, "chainName", 12), text(t, "symbol", 8),
			"1."+strings.Repeat("0", 1+rapid.IntRange(0, 30).Draw(t, "zeros")))
		for i := range rapid.IntRange(0, 2).Draw(t, "unknown members") {
			a.Extra = append(a.Extra, countersign.Member{Name: fmt.Sprint("memo", i), Value: countersign.Raw(`"` + strings.Repeat("m", rapid.IntRange(0, 150).Draw(t, "memo")) + `"`)})
		}
		canonical := must(a.Marshal())(t)
		b, bound, err := a.MarshalBlocks(chunk)
		ok(t, err)
		if bound != countersign.DetailsBound(b, layout(b, chunk)) {
			t.Fatalf("promised %v of %q", bound, b)
		}
		if countersign.DetailsBound(canonical, layout(canonical, chunk)) != (string(b) == string(canonical) && bound) {
			t.Fatalf("not canonical: %q", b)
		}
		if !bound {
			failed++
		} else if string(b) != string(canonical) {
			packed++
		}
		read, err := parseWithdrawalAnswer(b)
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if again, err := read.Marshal(); err != nil || string(again) != string(canonical) {
			t.Fatalf("%q says %s", b, again)
		}
	})
	if packed == 0 || failed == 0 {
		t.Errorf("%d packed, %d that cannot be: too few", packed, failed)
	}
}

func TestDetailsBoundOfNothing(t *testing.T) {
	for _, text := range []string{"", "{}", "[]", "null", `{"address":"a"}`, `{"callBackId":"c","address":"a","chainName":"b","symbol":"s"}`} {
		if countersign.DetailsBound([]byte(text), []int{len(text)}) {
			t.Errorf("%q is bound", text)
		}
	}
	nested := `{"x":{"callBackId":"c"},"address":"a","chainName":"b","symbol":"s","amount":"1"}`
	if countersign.DetailsBound([]byte(nested), []int{len(nested)}) {
		t.Error("a nested callBackId binds")
	}
}

// A detail may not lie in two blocks, even where one names the withdrawal and the other this
// attempt: halves of two honest answers, between which the merchant's order changed, join to
// a value that nobody said. The test makes such pairs at random and joins them at every edge:
// DetailsBound takes none whose amount or address is in neither answer. It also counts what
// the weaker rule (each half beside callBackId or requestUUID) would take, so that it cannot
// pass by joining nothing.
func TestPropertyHalvesOfTwoAnswers(t *testing.T) {
	worse := 0
	rapid.Check(t, func(t *rapid.T) {
		shuffled := rapid.Bool().Draw(t, "shuffled")
		chunk, length, most := 117, rapid.IntRange(46, 55).Draw(t, "callBackId"), 8
		if shuffled {
			chunk, length, most = rapid.SampledFrom([]int{62, 80, 117, 190}).Draw(t, "chunk"), rapid.IntRange(1, 60).Draw(t, "any callBackId"), 25
		}
		id := strings.Repeat("c", length)
		write := func(name, uuid string) (string, countersign.Details) {
			digits := rapid.StringMatching(fmt.Sprintf(`[1-9][0-9]{0,%d}`, most-1)).Draw(t, name+" amount")
			address := "0x" + rapid.StringMatching(`[0-9a-f]{40}`).Draw(t, name+" address")
			// In this order the first edge often cuts the amount, between callBackId and requestUUID.
			order := []string{`"chainName":"ETH"`, `"symbol":"USDT"`, `"callBackId":"` + id + `"`, `"amount":"` + digits + `"`,
				`"requestUUID":"` + uuid + `"`, `"address":"` + address + `"`, `"type":2`, `"tenantUserId":"65515"`}
			if shuffled {
				order = rapid.Permutation(order).Draw(t, name+" order")
			}
			return "{" + strings.Join(order, ",") + "}", answerOf(id, "65515", address, "ETH", "USDT", digits).Details
		}
		old, was := write("earlier", "1"+answerUUID[1:])
		now, is := write("later", answerUUID)
		a, b := slices.Collect(slices.Chunk([]byte(old), chunk)), slices.Collect(slices.Chunk([]byte(now), chunk))
		for cut := 1; cut < len(a); cut++ {
			for from := 1; from < len(b); from++ {
				var blocks []int
				var joined []byte
				for _, c := range append(slices.Clone(a[:cut]), b[from:]...) {
					blocks, joined = append(blocks, len(c)), append(joined, c...)
				}
				said, err := parseWithdrawalAnswer(joined)
				if err != nil || said.RequestUUID != answerUUID || said.CallBackID != id {
					continue
				}
				amount := func(d countersign.Details) bool { return d.Amount.Equal(said.Details.Amount) }
				mixed := !amount(was) && !amount(is) || said.Details.Address != was.Address && said.Details.Address != is.Address
				if !mixed {
					continue
				}
				if halvesBound(joined, blocks) {
					worse++
				}
				if countersign.DetailsBound(joined, blocks) {
					t.Fatalf("bound, and said by neither answer:\n%s\n%s\n%s %v", old, now, joined, blocks)
				}
			}
		}
	})
	if worse == 0 && !testing.Short() { // few pairs are made with -short
		t.Error("no pair shows why a detail must lie whole in one block")
	}
}

// TestHalvesOfTwoAnswers is one such pair: 1999, and later 2000, join to 2999.
func TestHalvesOfTwoAnswers(t *testing.T) {
	const chunk, address = 117, "0x7054b0f980a7eb5b3a6b3446f3c947d80162775c"
	write := func(amount, uuid string) string {
		text := `{"chainName":"ETH","symbol":"USDT","callBackId":"` + strings.Repeat("c", 55) + `","amount":"` + amount + `"`
		return text + `,"requestUUID":"` + uuid + `","address":"` + address + `","type":2,"tenantUserId":"65515"}`
	}
	later, earlier := write("2000", "1"+answerUUID[1:]), write("1999", answerUUID)
	joined := []byte(later[:chunk] + earlier[chunk:])
	blocks := layout(joined, chunk)
	said, err := parseWithdrawalAnswer(joined)
	if err != nil || said.Details.Amount.String() != "2999" || said.RequestUUID != answerUUID {
		t.Fatalf("the pair shows nothing: %s, %v", joined, err)
	}
	if !halvesBound(joined, blocks) {
		t.Error("the weaker rule refuses it too")
	}
	if countersign.DetailsBound(joined, blocks) {
		t.Errorf("bound: %s", joined)
	}
}

// halvesBound is the rule that is too weak: a detail may lie in two neighbouring blocks if
// each of them holds the whole callBackId or requestUUID.
func halvesBound(plaintext []byte, blocks []int) bool {
	edges := []int{0}
	for _, n := range blocks {
		edges = append(edges, edges[len(edges)-1]+n)
	}
	in := func(at int) int { i, _ := slices.BinarySearch(edges, at+1); return i - 1 }
	names := func(block int) bool {
		for _, name := range []string{`"callBackId":`, `"requestUUID":`} {
			from := strings.Index(string(plaintext), name)
			value := countersign.ValueSpans(plaintext, strings.Trim(name, `":`))[0]
			if from >= 0 && in(from) == block && in(value[1]-1) == block {
				return true
			}
		}
		return false
	}
	for i, name := range []string{"address", "chainName", "symbol", "amount"} {
		span := countersign.ValueSpans(plaintext, "address", "chainName", "symbol", "amount")[i]
		first, last := in(span[0]-len(name)-3), in(span[1]-1)
		if last-first > 1 || !names(first) || !names(last) {
			return false
		}
	}
	return true
}
