package countersign

import (
	"strings"
	"unicode"
)

// VisibleASCII reports whether s has only visible ASCII characters: no space, no control character, no letter of
// another alphabet that looks like ASCII. The symbols and chains of orders, answers and rules must be such texts.
func VisibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// Legible reports whether s has only visible ASCII characters and letters and digits of any alphabet. The addresses and
// transactions of orders, answers and rules must be such texts.
func Legible(s string) bool {
	for _, r := range s {
		if r <= ' ' || r == 0x7f || r >= 0x80 && !unicode.IsDigit(r) && (!unicode.IsLetter(r) || blank(r)) {
			return false
		}
	}
	return true
}

// visibleOnly removes white space, control and format characters, marks and blank letters, and writes full-width
// characters as ASCII.
func visibleOnly(s string) string {
	if VisibleASCII(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0xff01 && r <= 0xff5e:
			return r - 0xff01 + '!'
		case r == ' ' || !unicode.IsPrint(r) || unicode.IsMark(r) || blank(r):
			return -1
		}
		return r
	}, s)
}

// blank reports whether r is a letter or symbol that is drawn as nothing.
func blank(r rune) bool {
	switch r {
	case 0x115f, 0x1160, 0x2800, 0x3164, 0xffa0:
		return true
	}
	return false
}
