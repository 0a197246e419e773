package countersign

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"
)

// maxAddress bounds the texts that are decoded, so that a hostile one costs little.
const maxAddress = 128

// hexAddress reads the hexadecimal forms, with or without 0x. 40 digits, also after xdc, are an EVM address. 41 and 40
// more are a TRON address, whose key is its Base58Check text. Up to 64 digits are a number of 32 bytes, whose leading
// zeros some wallets leave out.
func hexAddress(s string) (key string, ok bool) {
	digits := cutHexMark(s)
	if len(digits) < 40 || len(digits) > 64 || !isHex(digits) {
		return "", false
	}
	digits = strings.ToLower(digits)
	switch n := len(digits); {
	case n == 40, n == 64:
		return "0x" + digits, true
	case n == 42 && digits[:2] == "41":
		b, _ := hex.DecodeString(digits)
		return base58Check(b), true
	case n >= 60:
		return "0x" + strings.Repeat("0", 64-n) + digits, true
	}
	return "", false
}

// cutHexMark cuts 0x, and xdc before hexadecimal digits.
func cutHexMark(s string) string {
	switch {
	case len(s) > 2 && strings.EqualFold(s[:2], "0x"):
		return s[2:]
	case len(s) > 3 && strings.EqualFold(s[:3], "xdc") && isHex(s[3:]):
		return s[3:]
	}
	return s
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }

// bech32Address reads Bech32 and Bech32m (BIP 173, BIP 350): in one case, with the right
// checksum. The key is in lower case.
func bech32Address(s string) (key string, ok bool) {
	lower := strings.ToLower(s)
	at := strings.LastIndexByte(lower, '1')
	if at < 1 || len(s) > maxAddress || s != lower && s != strings.ToUpper(s) {
		return "", false
	}
	values, ok := fiveBits(lower[at+1:])
	if !ok || len(values) < 6 {
		return "", false
	}
	sum := uint32(1)
	step := func(v byte) {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ uint32(v)
		for i, g := range [...]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			sum ^= g * (top >> i & 1)
		}
	}
	for i := range at {
		step(lower[i] >> 5)
	}
	step(0)
	for i := range at {
		step(lower[i] & 31)
	}
	for _, v := range values {
		step(v)
	}
	return lower, sum == 1 || sum == 0x2bc830a3
}

// cashPrefixes are the prefixes that a CashAddr may leave out.
var cashPrefixes = [...]string{"bitcoincash", "ecash", "bchtest"}

// cashAddress reads CashAddr. If the address (of Bitcoin Cash or eCash) has an older form too, that is the key.
// Otherwise the key is the text in lower case with its prefix.
func cashAddress(s string) (key string, ok bool) {
	lower := strings.ToLower(s)
	if len(s) > maxAddress || s != lower && s != strings.ToUpper(s) {
		return "", false
	}
	prefix, text, found := strings.Cut(lower, ":")
	if found {
		return cashKey(prefix, text)
	}
	for _, prefix := range cashPrefixes {
		if key, ok = cashKey(prefix, lower); ok {
			return key, true
		}
	}
	return "", false
}

func cashKey(prefix, text string) (key string, ok bool) {
	values, ok := fiveBits(text)
	if !ok || len(values) < 8+4 || prefix == "" {
		return "", false
	}
	sum := uint64(1)
	step := func(v byte) {
		top := sum >> 35
		sum = sum&0x07ffffffff<<5 ^ uint64(v)
		for i, g := range [...]uint64{0x98f2bc8e61, 0x79b76d99e2, 0xf33e5fb3c4, 0xae2eabe2a8, 0x1e4f43e470} {
			sum ^= g * (top >> i & 1)
		}
	}
	for i := range len(prefix) {
		step(prefix[i] & 31)
	}
	step(0)
	for _, v := range values {
		step(v)
	}
	if sum != 1 {
		return "", false
	}
	b := eightBits(values[:len(values)-8])
	if len(b) == 21 && (prefix == "bitcoincash" || prefix == "ecash") {
		switch b[0] {
		case 0: // of a key
			return base58Check(b), true
		case 8: // of a script
			b[0] = 5
			return base58Check(b), true
		}
	}
	return prefix + ":" + text, true
}

// fiveBits decodes the alphabet that Bech32 and CashAddr share.
func fiveBits(s string) (values []byte, ok bool) {
	values = make([]byte, len(s))
	for i := range len(s) {
		v := strings.IndexByte("qpzry9x8gf2tvdw0s3jn54khce6mua7l", s[i])
		if v < 0 {
			return nil, false
		}
		values[i] = byte(v)
	}
	return values, true
}

// eightBits packs values of five bits into bytes and drops the bits that are left over.
func eightBits(values []byte) []byte {
	var b []byte
	acc, bits := uint32(0), 0
	for _, v := range values {
		acc, bits = acc<<5|uint32(v), bits+5
		if bits >= 8 {
			bits -= 8
			b = append(b, byte(acc>>bits))
		}
	}
	return b
}

const (
	base58Letters = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	rippleLetters = "rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz"
)

// base58Address reads Base58Check, also in Ripple's alphabet, and Solana's Base58 of 32 bytes without a checksum. Case
// matters, so the text is the key. Only Litecoin has two texts for one script; the older one is the key of both.
func base58Address(s string) (key string, ok bool) {
	b, ok := base58(s, base58Letters)
	switch {
	case !ok:
		return "", false
	case len(b) == 32:
		return s, true
	case checked(b):
		if len(b) == 25 && b[0] == 50 {
			b[0] = 5
			return base58Check(b[:21]), true
		}
		return s, true
	}
	b, ok = base58(s, rippleLetters)
	return s, ok && checked(b)
}

func base58(s, letters string) (b []byte, ok bool) {
	if len(s) < 25 || len(s) > maxAddress {
		return nil, false
	}
	var number big.Int
	for i := range len(s) {
		digit := strings.IndexByte(letters, s[i])
		if digit < 0 {
			return nil, false
		}
		number.Mul(&number, fiftyEight).Add(&number, big.NewInt(int64(digit)))
	}
	zeros := len(s) - len(strings.TrimLeft(s, letters[:1]))
	return append(make([]byte, zeros), number.Bytes()...), true
}

var fiftyEight = big.NewInt(58)

// checked reports whether b ends with the checksum of Base58Check.
func checked(b []byte) bool {
	n := len(b) - 4
	return n >= 21 && string(b[n:]) == string(base58Sum(b[:n]))
}

func base58Sum(payload []byte) []byte {
	first := sha256.Sum256(payload)
	second := sha256.Sum256(first[:])
	return second[:4]
}

// base58Check writes payload as Base58Check.
func base58Check(payload []byte) string {
	b := append(payload[:len(payload):len(payload)], base58Sum(payload)...)
	var text []byte
	number, digit := new(big.Int).SetBytes(b), new(big.Int)
	for number.Sign() > 0 {
		number.DivMod(number, fiftyEight, digit)
		text = append(text, base58Letters[digit.Int64()])
	}
	for i := 0; i < len(b) && b[i] == 0; i++ {
		text = append(text, base58Letters[0])
	}
	slices.Reverse(text)
	return string(text)
}

// tonAddress reads TON's friendly forms, whose first byte only says how to send, and its raw form (workchain and hash),
// which is the key.
func tonAddress(s string) (key string, ok bool) {
	if chain, hash, found := strings.Cut(s, ":"); found {
		return strings.ToLower(s), (chain == "0" || chain == "-1") && len(hash) == 64 && isHex(hash)
	}
	if len(s) != 48 {
		return "", false
	}
	b, err := base64.RawURLEncoding.DecodeString(strings.NewReplacer("+", "-", "/", "_").Replace(s))
	if err != nil || b[0]&0x7f != 0x11 && b[0]&0x7f != 0x51 || crc16(b[:34]) != binary.BigEndian.Uint16(b[34:]) {
		return "", false
	}
	chain := "0:"
	if b[1] == 0xff {
		chain = "-1:"
	}
	return chain + hex.EncodeToString(b[2:34]), true
}

// stellarAddress reads Stellar accounts, which have only one spelling.
func stellarAddress(s string) (key string, ok bool) {
	if len(s) != 56 || s[0] != 'G' {
		return "", false
	}
	b, err := base32.StdEncoding.DecodeString(s)
	return s, err == nil && crc16(b[:33]) == binary.LittleEndian.Uint16(b[33:])
}

// crc16 is CRC-16/XMODEM.
func crc16(b []byte) (sum uint16) {
	for _, v := range b {
		sum ^= uint16(v) << 8
		for range 8 {
			if sum&0x8000 != 0 {
				sum = sum<<1 ^ 0x1021
			} else {
				sum <<= 1
			}
		}
	}
	return sum
}
