package countersign

import "strings"

// Transfer names what moved and where to: chainName, txId, symbol and toAddress in
// the spelling in which two deposits are suspected to be one (PROTOCOL.md, I2).
// White space around them, the case of ASCII letters, and 0x before txId and
// toAddress make no difference. It is for that suspicion alone: two deposits with
// the same Transfer and different trackingIds may still be two. Content and
// AddressKey, which decide what a callback does, keep the spelling.
func (d *Deposit) Transfer() []string {
	return []string{FoldSpelling(d.ChainName), foldHex(d.TxID), FoldSpelling(d.Symbol), foldHex(d.ToAddress)}
}

// foldHex also folds texts that are not hexadecimal, such as TRON's addresses,
// whose case counts: two of those that differ by case alone, in one transaction,
// are not expected, and would only be held for review.
func foldHex(s string) string { return strings.TrimPrefix(FoldSpelling(s), "0x") }

// FoldSpelling gives spellings of one word the same text: without white space (space, tab, CR,
// LF) around it, ASCII letters in lower case. All else stays, so that merchants in all
// languages do the same.
func FoldSpelling(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, strings.Trim(s, " \t\r\n"))
}
