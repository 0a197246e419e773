package console

import (
	"errors"
	"net/http"
	"net/url"

	"countersign/client"
)

// NewService makes the console of the service. It starts nothing.
func NewService(c Config) (*Console, error) {
	return newConsole(c, end{
		name: "service", title: "countersign service",
		sections: []section{anySection, tasksSection, nowSection, merchantsSection, callbacksSection, withdrawalsSection, alarmsSection, auditSection, tokensSection, stopSection},
		connect: func(v *visit, c client.Config) (err error) {
			v.service, err = client.NewService(c)
			v.api = v.service
			return err
		},
		top: (*visit).serviceTop,
	})
}

// serviceTop is what every page of the service's console shows.
type serviceTop struct {
	Alarms, Tasks string // how many are open; empty: none
	Freeze        client.Freeze
}

func (v *visit) serviceTop() (any, error) {
	var top serviceTop
	var err error
	if top.Alarms, top.Tasks, err = v.openCounts(); err == nil && v.may("frozen") {
		top.Freeze, err = v.service.Frozen(v.r.Context())
	}
	return top, err
}

// find leads to the callback or the withdrawal with an id.
func (v *visit) find() error {
	id := v.r.PathValue("id")
	to := "/console/callbacks/"
	_, err := v.service.Callback(v.r.Context(), id)
	if errors.Is(err, client.ErrNotFound) {
		to = "/console/withdrawals/"
		_, err = v.service.Withdrawal(v.r.Context(), id)
	}
	if err != nil {
		return err
	}
	http.Redirect(v.w, v.r, to+url.PathEscape(id), http.StatusSeeOther)
	return nil
}
