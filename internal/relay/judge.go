package relay

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"countersign/client"
)

// result is what became of rows that were sent.
type result int

const (
	down    result = iota // the service takes nothing now; the zero result loses nothing
	hold                  // these rows cannot be taken now, and their merchants' later rows wait for them
	refused               // they will never be taken as they are
	taken                 // they are in the service's database
)

// verdict is the meaning of an answer of the service.
type verdict struct {
	result  result
	split   bool            // send in parts what was sent together: the answer may be about one row
	wait    time.Duration   // with down: at least
	problem *client.Problem // with refused
}

// judge returns what the error of a call means; nil is an acknowledgement.
//
// A refusal must be the service's own and about the request. Otherwise a proxy that answers 400, or an address that is
// another API, would have every row refused.
func judge(err error) verdict {
	if err == nil {
		return verdict{result: taken}
	}
	p := problemOf(err)
	if p == nil { // it was not reached, did not answer in time, or the answer is not of its API
		return verdict{result: down}
	}
	switch p.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		if p.Detail != "" || len(p.Faults) > 0 {
			return verdict{result: refused, split: true, problem: p}
		}
	case http.StatusConflict:
		if len(p.Faults) > 0 { // the identifier is in use with other content
			return verdict{result: refused, split: true, problem: p}
		}
		return verdict{result: hold, split: true} // a state forbids it, which may change
	case http.StatusTooManyRequests: // with a fault fewer at once may fit into the token's limit
		return verdict{result: down, split: len(p.Faults) > 0, wait: p.RetryAfter}
	case http.StatusForbidden: // the token's role may not add this kind
		return verdict{result: hold}
	case http.StatusInternalServerError: // perhaps one row is the cause
		return verdict{result: hold, split: true}
	}
	return verdict{result: down, wait: p.RetryAfter}
}

// problemOf returns the service's own problem, or nil if the error has none.
func problemOf(err error) *client.Problem {
	var p *client.Problem
	if errors.As(err, &p) {
		return p
	}
	return nil
}

// itemProblem returns the problem of the i-th item as if the request had this item alone.
func itemProblem(p *client.Problem, i int) *client.Problem {
	q := *p
	q.Faults = slices.Clone(p.Faults)
	for n, f := range q.Faults {
		q.Faults[n].Location = strings.Replace(f.Location, fmt.Sprintf("body[%d]", i), "body", 1)
	}
	return &q
}
