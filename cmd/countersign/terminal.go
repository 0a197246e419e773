package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// onTerminal escapes what a terminal would act on or not show: control characters of both sets (including ESC and DEL),
// marks that change the direction of the text, characters of no width, spaces that look like another one, and bytes
// that are not UTF-8. Every text that others wrote and a person reads passes through it. The escapes are those of JSON
// strings; applied again, onTerminal leaves them as they are.
func onTerminal(text string) string {
	return escaped(text, unseen)
}

// jsonOnTerminal does the same for JSON, without changing its values: the only control characters below DEL in JSON are
// line ends and tabs, which are its layout.
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

// unseen reports whether a character is not shown as itself. unicode.IsPrint takes some characters without a width for
// letters and marks.
func unseen(r rune) bool {
	return !unicode.IsPrint(r) || r == utf8.RuneError || r == '\u2800' || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
