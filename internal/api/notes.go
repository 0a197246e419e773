package api

import (
	"strings"

	"countersign/client"
	"countersign/internal/db"
)

// NewNote returns the note that a call adds. It returns a problem if the text is only white space.
func (c *Call) NewNote(in client.NewNote) (db.Note, error) {
	if strings.TrimSpace(in.Text) == "" {
		return db.Note{}, Invalid(At("body.text", "is blank: write the note"))
	}
	return db.Note{At: c.Now, By: c.Token.ID, Name: c.Token.Name, Text: in.Text}, nil
}
