package console

import (
	"strings"
	"time"

	"countersign"
	"countersign/client"
)

// policySection shows the policy of the gateway.
var policySection = section{
	nav: navItem{"/console/policy", "Policy", "policy"},
	pages: []page{
		{"GET /console/policy", (*visit).policy},
	},
}

// policyPage is the policy in force, and what it would decide on an order.
type policyPage struct {
	client.PolicyInForce
	Values  map[string]string
	Problem []string       // what is wrong with the order to try
	Ruling  *client.Ruling // nil: no order was given
	Nodes   []client.Node  // each has read the file when it started
}

// policy tries the order in the address. Nothing is stored, so a link can show it.
func (v *visit) policy() error {
	page := policyPage{PolicyInForce: fetch[client.PolicyInForce](v, "/v1/policy"), Values: map[string]string{},
		Nodes: fetch[client.List[client.Node]](v, "/v1/nodes").Items}
	tried := false
	for _, name := range []string{"tenantUserId", "address", "chainName", "symbol", "amount", "labels", "at"} {
		page.Values[name] = v.query(name)
		tried = tried || page.Values[name] != ""
	}
	if tried {
		ruling, err := v.tryPolicy(page.Values)
		switch {
		case err != nil && statusOf(err) < 500:
			page.Problem = sentences(err)
		case err != nil:
			return err
		default:
			page.Ruling = &ruling
		}
	}
	return v.render("policy", "Policy", page)
}

func (v *visit) tryPolicy(values map[string]string) (r client.Ruling, err error) {
	o := client.TryOrder{TenantUserID: values["tenantUserId"], Address: values["address"], ChainName: values["chainName"],
		Symbol: values["symbol"]}
	if o.Amount, err = countersign.ParseAmount(values["amount"]); err != nil {
		return r, refuse("amount: " + err.Error())
	}
	if values["at"] != "" {
		at, err := time.Parse("2006-01-02T15:04", values["at"])
		if err != nil {
			return r, refuse("the time is not of the form 2030-01-02T15:04")
		}
		o.At = client.TimeOf(at)
	}
	if o.Labels, err = labelsOf(values["labels"]); err != nil {
		return r, err
	}
	return send[client.Ruling](v, "/v1/policy/try", o)
}

// labelsOf reads labels, one on each line, such as riskLevel=40.
func labelsOf(text string) (map[string]string, error) {
	labels := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, refuse("a label has no =: write name=value, one a line")
		}
		labels[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return labels, nil
}
