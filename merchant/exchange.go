package merchant

import (
	"context"

	"countersign"
)

// Exchange is a question about a withdrawal and its answer, for a record that can be
// shown later.
type Exchange struct {
	Question countersign.WithdrawalRequest
	// Request is the body of the request, RequestOpened what it opened to. Both are
	// valid only during the call.
	Request, RequestOpened []byte
	// Code and Message are those of the response, in the provider's numbers.
	Code    countersign.ErrCode
	Message string
	// Data is the sealed answer and DataOpened what was sealed in it, if Code is 0.
	Data       string
	DataOpened []byte
	// Link has the signatures of both. Nil: the request has none.
	Link *Link
}

// witnessed calls OnAnswer with an answer that confirms or refuses, before it is sent. If OnAnswer
// fails, the service gets errCode 5000 in its place.
func (h *Handler) witnessed(ctx context.Context, request, opened []byte, link *linked, r reply) reply {
	w, ok := r.callback.(*countersign.WithdrawalRequest)
	if !ok || h.c.OnAnswer == nil || r.Code != countersign.CodeAccepted && r.Code.Class() != countersign.ClassRefused {
		return r
	}
	// The record is made even if the service closes the connection.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.c.Timeout)
	defer cancel()
	kept, err := h.kept(link, r)
	if err == nil {
		err = h.c.OnAnswer(ctx, Exchange{Question: *w, Request: request, RequestOpened: opened,
			Code: h.c.Profile.code(r.Code), Message: r.Message, Data: r.data, DataOpened: r.plaintext, Link: kept})
	}
	if err != nil {
		r.data = ""
		if link != nil {
			link.response = nil
		}
		return r.end(failed(ReasonInbox, err))
	}
	return r
}
