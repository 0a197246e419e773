package journal

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"countersign/client"
)

// Show writes records for people, in order, each under a line that says when, what and who.
func Show(w io.Writer, list ...client.AuditEntry) error {
	for _, r := range list {
		entry, err := Read(r.Record)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("\n%d  %s  %s", r.Seq, entry.At, entry.Kind)
		if by := entry.By; by != nil {
			line += fmt.Sprintf("  by %s %q (%s)", by.Token, by.Name, by.Role)
			if by.Address != "" {
				line += " from " + by.Address
			}
		}
		if entry.Node != "" {
			line += "  on " + entry.Node
		}
		fmt.Fprintln(w, line)
		if len(entry.About) > 0 {
			fmt.Fprintf(w, "    about: %q\n", entry.About)
		}
		if err := showMembers(w, entry.Data); err != nil {
			return err
		}
	}
	return nil
}

// showMembers shows the members of a JSON object, one a line, in their order.
func showMembers(w io.Writer, object json.RawMessage) error {
	return eachMember(object, func(name string, value json.RawMessage) error {
		var text string
		if json.Unmarshal(value, &text) != nil || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
			text = string(value) // a terminal must not act on it
		}
		fmt.Fprintf(w, "    %s: %s\n", name, text)
		return nil
	})
}

// eachMember returns the members of a JSON object in their order, as they are written.
func eachMember(object json.RawMessage, fn func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(strings.NewReader(string(object)))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil // no data
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err == nil {
			err = fn(fmt.Sprint(name), value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
