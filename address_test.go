package countersign_test

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"countersign"
)

// Spellings of one address a line; the first is its key.
const sameAddresses = `
0xabcdef0000000000000000000000000000000001 0xAbCdef0000000000000000000000000000000001 0XABCDEF0000000000000000000000000000000001 abcdef0000000000000000000000000000000001 eth:0xabcdef0000000000000000000000000000000001 ethereum:0xABcdef0000000000000000000000000000000001 xdcabcdef0000000000000000000000000000000001 XDCABCDEF0000000000000000000000000000000001 eip155:1:0xabcdef0000000000000000000000000000000001 ETHEREUM:pay-0xabcdef0000000000000000000000000000000001
0x00cdef0000000000000000000000000000000000000000000000000000000001 0xCDEF0000000000000000000000000000000000000000000000000000000001
TGDHyoMpgDQj4DmoZdwJP2FSkSG4DEchnK 41447abbdce13bf9356ccc562ad2da1dcb773d238c 0x41447abbdce13bf9356ccc562ad2da1dcb773d238c 0X41447ABBDCE13BF9356CCC562AD2DA1DCB773D238C tron:TGDHyoMpgDQj4DmoZdwJP2FSkSG4DEchnK
bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4 BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4 bitcoin:bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4 BITCOIN:BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4
bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr BC1P5CYXNUXMEUWUVKWFEM96LQZSZD02N6XDCJRS20CAC6YQJJWUDPXQKEDRCR
1BpEi6DfDAUFd7GtittLSdBeYJvcoaVggu bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a QPM2QSZNHKS23Z7629MMS6S4CWEF74VCWVY22GDX6A BITCOINCASH:QPM2QSZNHKS23Z7629MMS6S4CWEF74VCWVY22GDX6A bitcoin:1BpEi6DfDAUFd7GtittLSdBeYJvcoaVggu
3CWFddi6m4ndiGyKqzYvsFYagqDLPVMTzC bitcoincash:ppm2qsznhks23z7629mms6s4cwef74vcwvn0h829pq ppm2qsznhks23z7629mms6s4cwef74vcwvn0h829pq MJiPwX84iBe4WnFDwsYGgtnz1XonPhUqhf litecoin:MJiPwX84iBe4WnFDwsYGgtnz1XonPhUqhf
0:83dfd552e63729b472fcbcc8c45ebcc6691702558b68ec7527e1ba403a0f31a8 EQCD39VS5jcptHL8vMjEXrzGaRcCVYto7HUn4bpAOg8xqB2N UQCD39VS5jcptHL8vMjEXrzGaRcCVYto7HUn4bpAOg8xqEBI ton://transfer/EQCD39VS5jcptHL8vMjEXrzGaRcCVYto7HUn4bpAOg8xqB2N 0:83DFD552E63729B472FCBCC8C45EBCC6691702558B68EC7527E1BA403A0F31A8
rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh xrpl:rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh
GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ web+stellar:GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ
So11111111111111111111111111111111111111112 solana:So11111111111111111111111111111111111111112
`

func TestAddressKey(t *testing.T) {
	keys := map[string]bool{}
	for line := range strings.SplitSeq(strings.TrimSpace(sameAddresses), "\n") {
		spellings := strings.Fields(line)
		if keys[spellings[0]] {
			t.Errorf("%s is the key of two lines", spellings[0])
		}
		keys[spellings[0]] = true
		for _, s := range spellings {
			if got := countersign.AddressKey(s); got != spellings[0] || !countersign.KnownAddress(s) {
				t.Errorf("%q has the key %q, want %q", s, got, spellings[0])
			}
			if got := countersign.FoldAddress(" " + s + "\u200b?memo=1"); got != countersign.FoldAddress(spellings[0]) {
				t.Errorf("%q with what nobody sees and a query folds to %q", s, got)
			}
		}
	}
}

// What says no bytes, or others, equals nothing but itself.
func TestAddressKeyUnknown(t *testing.T) {
	for _, s := range []string{
		"",
		"0xAbCdef000000000000000000000000000000001",   // 39 digits
		"0xAbCdef00000000000000000000000000000000001", // 41
		"0xAbCdeg0000000000000000000000000000000001",  // g
		"0xAbCdef0000000000000000000000000000000001 ",
		"0xAbCdef0000000000000000000000000000000001?memo=1",
		"ethereum:0xAbCdef0000000000000000000000000000000001/transfer?address=0xAbCdef0000000000000000000000000000000002",
		"tgdhyompgdqj4dmozdwjp2fsksg4dechn2",
		"TGDHyoMpgDQj4DmoZdwJP2FSkSG4DEchn2",
		"Bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", // two cases
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5", // checksum
		"BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T5",
		"bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6q",
		"EQCD39VS5jcptHL8vMjEXrzGaRcCVYto7HUn4bpAOg8xqB2M",
		"alice.near", "Alice.near", "1", "q", "bitcoincash:", ":", "eth:",
		strings.Repeat("1", 5000), strings.Repeat("q", 5000), "bc1" + strings.Repeat("q", 5000), strings.Repeat("a:", 500),
	} {
		if got := countersign.AddressKey(s); got != s || countersign.KnownAddress(s) {
			t.Errorf("%q has the key %q", s, got)
		}
	}
	if countersign.SameAddress("1BpEi6DfDAUFd7GtittLSdBeYJvcoaVggu", "3CWFddi6m4ndiGyKqzYvsFYagqDLPVMTzC") {
		t.Error("a key and a script of the same hash are one address")
	}
}

// A key is its own key, and no text of the letters of addresses is another's by chance.
func TestPropertyAddressKey(t *testing.T) {
	all := strings.Fields(sameAddresses)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.SampledFrom(all), rapid.String(), rapid.StringMatching(`(0x|41|bc1|T)?[0-9a-zA-Z]{20,60}`)).Draw(t, "address")
		key := countersign.AddressKey(s)
		if again := countersign.AddressKey(key); again != key {
			t.Fatalf("%q has the key %q, whose key is %q", s, key, again)
		}
		fold := countersign.FoldAddress(s)
		if again := countersign.FoldAddress(fold); again != fold {
			t.Fatalf("%q folds to %q, which folds to %q", s, fold, again)
		}
		if countersign.FoldAddress(key) != fold {
			t.Fatalf("%q folds to %q, its key %q to %q", s, fold, key, countersign.FoldAddress(key))
		}
	})
}

func TestVisibleTexts(t *testing.T) {
	for _, r := range []rune{0, '\t', '\n', 0x0b, 0x1b, ' ', 0x7f, 0x85, 0xa0, 0xad, 0x34f, 0x115f, 0x180e, 0x2009, 0x200b, 0x200c, 0x200d, 0x200e, 0x202e, 0x202f,
		0x2060, 0x2800, 0x3000, 0x3164, 0xfe0f, 0xfeff, 0xffa0, 0xe0001, unicode.MaxRune} {
		for _, s := range []string{string(r), "USDT" + string(r), string(r) + "USDT", "US" + string(r) + "DT"} {
			if countersign.VisibleASCII(s) || countersign.Legible(s) {
				t.Errorf("%q is a text that one sees", s)
			}
			if s != string(r) && countersign.FoldSymbol(s) != "usdt" {
				t.Errorf("%q folds to %q", s, countersign.FoldSymbol(s))
			}
		}
	}
	for _, s := range []string{"ＵＳＤＴ", "UЅDT", "usdté", "\xff"} {
		if countersign.VisibleASCII(s) {
			t.Errorf("%q is ASCII", s)
		}
	}
	if countersign.FoldSymbol("ＵＳＤＴ") != "usdt" || !countersign.Legible("käse.eth") || countersign.Legible("\xff") || !countersign.VisibleASCII("USDC.e") {
		t.Error("full width, letters or punctuation")
	}
}
