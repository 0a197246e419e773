package api

import (
	"strings"

	"countersign/client"
	"countersign/internal/db"
)

// NewNote gives the note that a call adds.
func (c *Call) NewNote(in client.NewNote) (db.Note, error) {
	if strings.TrimSpace(in.Text) == "" {
		return db.Note{}, Invalid(At("body.text", "is white space alone; write what is to be known"))
	}
	return db.Note{At: c.Now, By: c.Token.ID, Name: c.Token.Name, Text: in.Text}, nil
}

// ShownNotes are notes as the APIs show them.
func ShownNotes(list []db.Note) client.Notes {
	out := client.Notes{Notes: []client.Note{}}
	for _, n := range list {
		out.Notes = append(out.Notes, ShownNote(n))
	}
	return out
}

// ShownNote is one of them.
func ShownNote(n db.Note) client.Note {
	return client.Note{Number: n.Seq, At: TimeOf(n.At), By: n.By, Name: n.Name, Text: n.Text}
}
