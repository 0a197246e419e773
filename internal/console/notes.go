package console

import (
	"net/url"
	"strconv"
	"strings"
)

// noted gives the text of the form, with line ends as people meant them: browsers post them as
// two characters.
func (v *visit) noted() string {
	return strings.ReplaceAll(v.form("text"), "\r\n", "\n")
}

func (v *visit) withdrawalNote() error {
	id := v.r.PathValue("id")
	if _, err := v.service.NoteWithdrawal(v.r.Context(), id, v.noted()); err != nil {
		return err
	}
	return v.done("/console/withdrawals/"+url.PathEscape(id), "noted")
}

func (v *visit) orderNote() error {
	id := v.r.PathValue("id")
	if _, err := v.gateway.NoteOrder(v.r.Context(), id, v.noted()); err != nil {
		return err
	}
	return v.done("/console/orders/"+url.PathEscape(id), "noted")
}

func (v *visit) depositNote() error {
	if _, err := v.gateway.NoteDeposit(v.r.Context(), v.seq(), v.noted()); err != nil {
		return err
	}
	return v.done("/console/deposits/"+strconv.FormatInt(v.seq(), 10), "noted")
}
