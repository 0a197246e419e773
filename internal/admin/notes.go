package admin

import (
	"countersign/client"
	"countersign/internal/api"
)

func (s *Server) withdrawalNotes(c *api.Call, _ api.None, _ api.None) (client.Notes, error) {
	id, err := c.PathID()
	if err != nil {
		return client.Notes{}, err
	}
	list, err := s.Lists.WithdrawalNotes(c.R.Context(), id)
	return api.ShownNotes(list), err
}

func (s *Server) noteWithdrawal(c *api.Call, _ api.None, in client.NewNote) (client.Note, error) {
	id, err := c.PathID()
	if err != nil {
		return client.Note{}, err
	}
	n, err := c.NewNote(in)
	if err == nil {
		n, err = s.Outbox.NoteWithdrawal(c.R.Context(), id, n)
	}
	return api.ShownNote(n), err
}
