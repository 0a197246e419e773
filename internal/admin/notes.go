package admin

import (
	"countersign/client"
	"countersign/internal/api"
)

func (s *Server) noteWithdrawal(c *api.Call, id string, in client.NewNote) (client.Note, error) {
	n, err := c.NewNote(in)
	if err == nil {
		n, err = s.Outbox.NoteWithdrawal(c.R.Context(), id, n)
	}
	return api.ShownNote(n), err
}
