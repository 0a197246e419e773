package db

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// identifierMost is the longest identifier, in bytes. An index entry of PostgreSQL holds at most about 2,700.
const identifierMost = 1024

// CheckIdentifier is CheckText for a text that is part of an index. It also limits the length.
func CheckIdentifier(member, text string) error {
	if len(text) > identifierMost {
		return fmt.Errorf("%s is %w: it has %d bytes, and at most %d are allowed", member, ErrInvalid, len(text), identifierMost)
	}
	return CheckText(member, text)
}

// CheckText returns ErrInvalid for a text that one of the databases would not store unchanged.
func CheckText(member, text string) error {
	if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		return fmt.Errorf("%s is %w: it holds U+0000 or is not UTF-8", member, ErrInvalid)
	}
	return nil
}

// CheckTexts is CheckText for several members. It takes the name and the text of each in turn. It returns an
// *ItemError that names the member.
func CheckTexts(members ...string) error {
	for i := 0; i < len(members); i += 2 {
		if err := CheckText(members[i], members[i+1]); err != nil {
			return &ItemError{Member: members[i], Err: err}
		}
	}
	return nil
}

// Clean returns text with everything that cannot be stored replaced by U+FFFD.
func Clean(text string) string {
	if CheckText("", text) == nil {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
