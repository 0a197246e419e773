package db

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// identifierMost bounds identifiers, in bytes. PostgreSQL keeps no more than
// about 2,700 in an entry of an index.
const identifierMost = 1024

// CheckIdentifier is CheckText for what is looked up by an index.
func CheckIdentifier(member, text string) error {
	if len(text) > identifierMost {
		return fmt.Errorf("%s is %w: it has %d bytes, at most %d go", member, ErrInvalid, len(text), identifierMost)
	}
	return CheckText(member, text)
}

// CheckText refuses, with ErrInvalid, what one of the databases would not keep
// unchanged.
func CheckText(member, text string) error {
	if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		return fmt.Errorf("%s is %w: it holds U+0000 or is not UTF-8", member, ErrInvalid)
	}
	return nil
}

// Clean makes any text storable: what is not becomes U+FFFD.
func Clean(text string) string {
	if CheckText("", text) == nil {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
