package countersign_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign"
)

func transferOf(chainName, txID, symbol, toAddress string) *countersign.Deposit {
	return &countersign.Deposit{TxID: txID, ChainName: chainName, Symbol: symbol, ToAddress: toAddress}
}

// TestFoldChain: names in use for one chain are one.
func TestFoldChain(t *testing.T) {
	for _, row := range [][]string{
		{"ETH", "eth ", "ERC20", "ERC-20", "Ethereum", "ETH_ERC20", "Ethereum Mainnet"},
		{"BSC", "BNB", "BEP20", "BNB Smart Chain", "BNB Smart Chain (BEP20)"},
		{"TRON", "TRX", "TRC20", "Tron-TRC20", "ＴＲＯＮ"},
		{"MATIC", "Polygon", "POL"}, {"AVAX", "Avalanche C-Chain"}, {"SOL", "Solana"}, {"ARBITRUM", "Arbitrum One"},
		{"newchain", "NEW-CHAIN", "New Chain"}, {"-"}, {""},
	} {
		for _, other := range row {
			if a, b := countersign.FoldChain(row[0]), countersign.FoldChain(other); a != b {
				t.Errorf("%q folds to %q, %q to %q", row[0], a, other, b)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if once := countersign.FoldChain(rapid.String().Draw(t, "chain")); countersign.FoldChain(once) != once {
			t.Fatalf("%q folds to %q", once, countersign.FoldChain(once))
		}
	})
}

// TestPayment: the amount tells transfers apart, and of a transaction of 64 digits nothing else but
// the address.
func TestPayment(t *testing.T) {
	long := strings.Repeat("ab12", 16)
	of := func(chain, tx, symbol, amount string) []string {
		d := transferOf(chain, tx, symbol, "0x7054b0F980a7eb5b3A6b3446f3c947d80162775c")
		d.Amount = mustAmount(amount)
		return d.Payment()
	}
	if !slices.Equal(of("BSC", "0x"+long, "USDT", "7.4"), of("Binance", strings.ToUpper(long), "BSC-USD", "7.40")) {
		t.Error("a renamed chain and symbol, or another scale, is another payment")
	}
	if slices.Equal(of("BSC", long, "USDT", "7.4"), of("BSC", long, "USDT", "7.5")) || slices.Equal(of("BSC", "17", "USDT", "7.4"), of("ETH", "17", "USDT", "7.4")) {
		t.Error("another amount, or a short txId on another chain, is the same payment")
	}
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
		"address with a scheme":  transferOf("ETH", tx, "USDT", "eth:"+to),
		"address of XDC":         transferOf("ETH", tx, "USDT", "xdc"+to[2:]),
		"address with a memo":    transferOf("ETH", tx, "USDT", to+"?memo=7"),
		"tx with a scheme":       transferOf("ETH", "eth:"+tx, "USDT", to),
		"tx with a memo":         transferOf("ETH", tx+"?memo=7", "USDT", to),
		"tx not seen":            transferOf("ETH", "\ufeff"+tx+"\u200b", "USDT", to),
		"all with spaces":        transferOf("E\u00a0TH", tx+"\u202f", "US\u2060DT", "\u2009"+to),
		"symbol in full width":   transferOf("ETH", tx, "ＵＳＤＴ", to),
		"another name":           transferOf("Ethereum (ERC-20)", tx, "USDT", to),
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
	// What decides keeps the spelling of names.
	if spelt := transferOf("eth", tx, "USDT", to); slices.Equal(spelt.Content(), base.Content()) {
		t.Error("the fold reached content")
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

// What nobody sees is refused in orders and answers, and so are identifiers that no index holds.
func TestUnreadableTexts(t *testing.T) {
	good := countersign.Details{Address: "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", ChainName: "TRON", Symbol: "USDT", Amount: mustAmount("5")}
	ok(t, good.Validate())
	for _, r := range []rune{'\v', '\t', 0x1b, ' ', 0x7f, 0xa0, 0xad, 0x2009, 0x200b, 0x202f, 0x2060, 0xfeff} {
		for member, put := range map[string]func(d *countersign.Details){
			"address":   func(d *countersign.Details) { d.Address += string(r) },
			"chainName": func(d *countersign.Details) { d.ChainName = string(r) + d.ChainName },
			"symbol":    func(d *countersign.Details) { d.Symbol = "US" + string(r) + "DT" },
		} {
			d := good
			put(&d)
			var at *countersign.MemberError
			if err := d.Validate(); !errors.As(err, &at) || at.Member != member {
				t.Errorf("%U in %s: %v", r, member, err)
			}
			text, _ := json.Marshal(map[string]any{"type": 2, "tenantUserId": "u", "callBackId": "c", "requestUUID": "r",
				"address": d.Address, "chainName": d.ChainName, "symbol": d.Symbol, "amount": "5"})
			if _, err := parseWithdrawalAnswer(text); !errors.As(err, &at) || at.Member != member {
				t.Errorf("an answer with %U in %s: %v", r, member, err)
			}
		}
	}
	for _, symbol := range []string{"ＵＳＤＴ", "UЅDT"} {
		d := good
		d.Symbol = symbol
		if d.Validate() == nil {
			t.Errorf("%s passes", symbol)
		}
	}
	for _, member := range []string{"trackingId", "tenantUserId", "callBackId", "requestUUID"} {
		for length, want := range map[int]bool{countersign.MaxID: true, countersign.MaxID + 1: false} {
			m := map[string]any{"type": 2, "trackingId": "t", "tenantUserId": "u", "callBackId": "c", "business": 0, "requestUUID": "r"}
			m[member] = strings.Repeat("x", length)
			text, _ := json.Marshal(m)
			_, err := countersign.ParseCallback(text, countersign.ParseOptions{})
			if (err == nil) != want || err != nil && countersign.CodeOf(err) != countersign.CodeMalformed {
				t.Errorf("%s of %d bytes: %v", member, length, err)
			}
			m[member] = json.Number(strings.Repeat("7", length)) // the digits of a lenient parse
			text, _ = json.Marshal(m)
			if _, err = countersign.ParseCallback(text, countersign.ParseOptions{Lenient: true}); (err == nil) != (want && member != "requestUUID") {
				t.Errorf("%s of %d digits: %v", member, length, err)
			}
		}
	}
}
