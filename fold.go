package countersign

import (
	"strings"
	"unicode"
)

// The folds return one text for all spellings of one thing (PROTOCOL.md, I3). Use them where something is only
// suspected or restricted: possible duplicates, limits, lists, the chain of an address change. To decide whether an
// answer agrees with its order, or a callback with its repetition, compare the members as they are written, and
// addresses by AddressKey.

// Transfer returns what identifies a transfer where deposits are compared (PROTOCOL.md, I2): chain, transaction, symbol
// and address, folded. Two deposits with the same Transfer and different trackingIds may be one deposit, or two
// transfers of one transaction; see Payment.
func (d *Deposit) Transfer() []string {
	return []string{FoldChain(d.ChainName), FoldTxID(d.TxID), FoldSymbol(d.Symbol), FoldAddress(d.ToAddress)}
}

// Payment returns Transfer and the amount. Two deposits with the same Payment are possible duplicates, whatever their
// txIndex. A transaction of 64 hexadecimal digits exists on one chain only. Payment then leaves out chain and symbol,
// so that a chain with a new name does not hide a duplicate.
func (d *Deposit) Payment() []string {
	p := append(d.Transfer(), d.Amount.Canonical())
	if tx := p[1]; len(tx) == 64 && isHex(tx) {
		p[0], p[2] = "", ""
	}
	return p
}

// FoldSymbol returns one text for all spellings of a symbol: without invisible characters, with full-width characters
// as ASCII and ASCII letters in lower case.
func FoldSymbol(symbol string) string { return lowerASCII(visibleOnly(symbol)) }

// FoldChain is FoldSymbol for the name of a chain, also without punctuation, and with one name
// for a chain that has several in use, such as BSC and BNB.
func FoldChain(chainName string) string {
	folded := FoldSymbol(chainName)
	bare := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return r
		}
		return -1
	}, folded)
	if known, ok := chainNames[bare]; ok {
		return known
	}
	if bare == "" {
		return folded
	}
	return bare
}

// FoldTxID returns one text for all spellings of a transaction: it is FoldSymbol that also cuts a scheme, a query, and
// 0x or xdc before hexadecimal digits.
func FoldTxID(txID string) string {
	return foldText(txID, func(s string) (string, bool) { return s, false })
}

// FoldAddress returns one text for all spellings that may be meant to be one address (PROTOCOL.md, I3). Use it for
// possible duplicates and deny lists. Beyond what AddressKey does, it ignores invisible characters, schemes, queries
// and case, so two different addresses may have the same fold.
func FoldAddress(address string) string { return foldText(address, addressKey) }

// foldText folds s. It cuts schemes and queries until key knows the rest or nothing is left to cut, so that its result
// folds to itself.
func foldText(s string, key func(string) (string, bool)) string {
	s = visibleOnly(s)
	for {
		if k, known := key(s); known {
			return lowerASCII(k)
		}
		before := s
		if at := strings.IndexAny(s, "?#@"); at > 0 {
			if _, known := key(s[:at]); known || s[at] != '@' { // of alice@example.com both halves count
				s = s[:at]
			}
		}
		if rest, found := cutScheme(s); found && rest != "" {
			s = rest
		}
		if s = cutHexMark(s); s == before {
			return lowerASCII(s)
		}
	}
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// chainNames maps each name in use for a chain, folded and without punctuation, to the first name of its row.
var chainNames = func() map[string]string {
	names := map[string]string{}
	for row := range strings.SplitSeq(`
eth ethereum erc20 etherc20 ethereumerc20 ethmainnet ethereummainnet eip1551
trx tron trc20 trxtrc20 trontrc20 tronmainnet
bsc bnb bep20 bscbep20 bnbbep20 bnbchain bnbsmartchain bnbsmartchainbep20 binance binancesmartchain bscmainnet eip15556
matic polygon pol polygonpos maticpolygon polygonmatic polygonmainnet eip155137
avax avalanche avaxc cchain avaxcchain avalanchec avalanchecchain eip15543114
arb arbitrum arbitrumone arbone arb1 arbi arbeth eip15542161
op optimism opt opmainnet optimismmainnet opeth oeth eip15510
base basemainnet baseeth eip1558453
zksync zksyncera era zk zkera eip155324
ftm fantom fantomopera
cro cronos
etc ethereumclassic eip15561
xdc xinfin xdcnetwork eip15550
klay klaytn kaia
sol solana spl solanaspl solspl
btc bitcoin xbt bitcoinmainnet
bch bitcoincash
ltc litecoin
doge dogecoin
dash dashcoin
zec zcash
xmr monero
xrp ripple xrpl xrpledger
xlm stellar
ton toncoin theopennetwork jetton
ada cardano
dot polkadot
atom cosmos cosmoshub
near nearprotocol
apt aptos
algo algorand
xtz tezos
fil filecoin
hbar hedera
`, "\n") {
		fields := strings.Fields(row)
		for _, name := range fields {
			names[name] = fields[0]
		}
	}
	return names
}()
