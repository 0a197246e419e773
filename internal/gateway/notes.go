package gateway

import (
	"countersign/client"
	"countersign/internal/api"
)

func (a *server) orderNotes(c *api.Call, _ api.None, _ api.None) (client.Notes, error) {
	list, err := a.lists.OrderNotes(c.R.Context(), c.R.PathValue("callBackId"))
	return api.ShownNotes(list), err
}

func (a *server) noteOrder(c *api.Call, _ api.None, in client.NewNote) (client.Note, error) {
	n, err := c.NewNote(in)
	if err == nil {
		n, err = a.book.NoteOrder(c.R.Context(), c.R.PathValue("callBackId"), n)
	}
	return api.ShownNote(n), err
}

func (a *server) noteDeposit(c *api.Call, seq int64, in client.NewNote) (client.Note, error) {
	n, err := c.NewNote(in)
	if err == nil {
		n, err = a.book.NoteDeposit(c.R.Context(), seq, n)
	}
	return api.ShownNote(n), err
}
