package countersign_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign"
)

func transferOf(chainName, txID, symbol, toAddress string) *countersign.Deposit {
	return &countersign.Deposit{TxID: txID, ChainName: chainName, Symbol: symbol, ToAddress: toAddress}
}

func TestTransfer(t *testing.T) {
	const tx, to = "0xec7cc4df1ff5", "0x7054b0F980a7eb5b3A6b3446f3c947d80162775c"
	base := transferOf("ETH", tx, "USDT", to)
	for name, d := range map[string]*countersign.Deposit{
		"chain in lower case":    transferOf("eth", tx, "USDT", to),
		"chain with a space":     transferOf("ETH ", tx, "USDT", to),
		"chain in white space":   transferOf("\r\n\tEth", tx, "USDT", to),
		"tx in upper case":       transferOf("ETH", strings.ToUpper(tx), "USDT", to),
		"tx without 0x":          transferOf("ETH", tx[2:], "USDT", to),
		"tx in upper, no 0x":     transferOf("ETH", strings.ToUpper(tx[2:]), "USDT", to),
		"symbol in lower case":   transferOf("ETH", tx, "usdt", to),
		"address in lower case":  transferOf("ETH", tx, "USDT", strings.ToLower(to)),
		"address with 0X":        transferOf("ETH", tx, "USDT", "0X"+to[2:]),
		"address without 0x":     transferOf("ETH", tx, "USDT", to[2:]),
		"address with a newline": transferOf("ETH", tx, "USDT", to+"\n"),
	} {
		if !slices.Equal(d.Transfer(), base.Transfer()) {
			t.Errorf("%s: %q is not %q", name, d.Transfer(), base.Transfer())
		}
	}
	for name, d := range map[string]*countersign.Deposit{
		"chain":               transferOf("BSC", tx, "USDT", to),
		"tx":                  transferOf("ETH", tx+"0", "USDT", to),
		"symbol":              transferOf("ETH", tx, "USDC", to),
		"address":             transferOf("ETH", tx, "USDT", to[:41]+"d"),
		"members exchanged":   transferOf("USDT", tx, "ETH", to),
		"a letter of Unicode": transferOf("ETH", tx, "uſdt", to),
	} {
		if slices.Equal(d.Transfer(), base.Transfer()) {
			t.Errorf("another %s: the same transfer", name)
		}
	}
	// What decides about money keeps the spelling.
	if spelt := transferOf("eth", tx, "USDT", to); slices.Equal(spelt.Content(), base.Content()) || countersign.SameAddress("0X"+to[2:], to) {
		t.Error("the fold reached identity")
	}
}

// TestTransferFolds: every spelling of a text gives the same transfer, and
// folding again changes nothing.
func TestTransferFolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hex := rapid.StringMatching(`[0-9a-zA-Z]{1,40}`).Filter(func(s string) bool { return !strings.HasPrefix(strings.ToLower(s), "0x") })
		txID, to := hex.Draw(t, "tx"), hex.Draw(t, "to")
		respell := func(s string) string {
			letters := []byte(rapid.SampledFrom([]string{"", "0x", "0X"}).Draw(t, "prefix") + s)
			for i := range letters {
				if rapid.Bool().Draw(t, "upper") {
					letters[i] = strings.ToUpper(string(letters[i]))[0]
				}
			}
			space := rapid.StringMatching(`[ \t\r\n]{0,2}`)
			return space.Draw(t, "before") + string(letters) + space.Draw(t, "after")
		}
		a := transferOf("TRON", txID, "USDT", to).Transfer()
		b := transferOf(" Tron", respell(txID), "usdt\n", respell(to)).Transfer()
		if !slices.Equal(a, b) {
			t.Fatalf("%q and %q", a, b)
		}
		if again := transferOf(a[0], a[1], a[2], a[3]).Transfer(); !slices.Equal(a, again) {
			t.Fatalf("%q folds to %q", a, again)
		}
	})
}
