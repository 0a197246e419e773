package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"

	"countersign/client"
)

// Show writes records for people, in order, each under a line with its number, time and kind.
func Show(w io.Writer, list ...client.AuditEntry) error {
	var text bytes.Buffer
	for _, r := range list {
		entry, err := Read(r.Record)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "\n%d  %s  %s\n    ", r.Seq, entry.At, entry.Kind)
		if err := json.Indent(&text, r.Record, "    ", "  "); err != nil {
			return err
		}
		text.WriteByte('\n')
	}
	for _, c := range text.String() {
		form := "%c"
		if unicode.IsControl(c) && c != '\n' { // a terminal must not act on it
			form = `\u%04x`
		}
		if _, err := fmt.Fprintf(w, form, c); err != nil {
			return err
		}
	}
	return nil
}
