package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// onTerminal escapes what a terminal would act on or not show: control characters of both sets
// (ESC and DEL among them), marks that turn the direction of the text, characters of no width,
// spaces that look like another one, and bytes that are not UTF-8. Everything that others wrote
// and a person reads goes through it. The escapes are those of JSON strings, and onTerminal leaves
// them as they are when it sees them again.
func onTerminal(text string) string {
	return escaped(text, unseen)
}

// jsonOnTerminal does the same to a text of JSON, whose values stay equal: below DEL only a
// line's end and a tab can be in it, and they are of its layout.
func jsonOnTerminal(text []byte) []byte {
	return []byte(escaped(string(text), func(r rune) bool { return r > '~' && r != utf8.RuneError && unseen(r) }))
}

func escaped(text string, escape func(rune) bool) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case !escape(r):
			b.WriteRune(r)
		case r == utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// unseen reports whether a character is not shown as what it is. unicode.IsPrint takes some that
// have no width for letters and marks.
func unseen(r rune) bool {
	return !unicode.IsPrint(r) || r == utf8.RuneError || r == '\u2800' || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
