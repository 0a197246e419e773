package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// retainFlags say how long a daemon keeps what is settled.
type retainFlags struct {
	Retain days `first:"" help:"How long settled callbacks are kept in full, such as 90d. What answers a repetition stays. 0: for ever." default:"0" placeholder:"DAYS"`
}

// keep is how long settled callbacks are kept; 0: for ever.
func (f retainFlags) keep() (settled time.Duration, err error) {
	if settled, err = f.Retain.length(); err != nil {
		err = fmt.Errorf("--retain: %w", err)
	}
	return settled, err
}

// days is a flag that holds a number of days with a d, or 0.
type days string

// mostDays is a hundred years: no duration of that length overflows.
const mostDays = 36_500

func (d days) length() (time.Duration, error) {
	if d == "0" || d == "" {
		return 0, nil
	}
	text, ok := strings.CutSuffix(string(d), "d")
	n, err := strconv.ParseUint(text, 10, 32)
	if !ok || err != nil || n > mostDays {
		return 0, fmt.Errorf("%q is neither 0 nor a number of days up to %dd, such as 90d", string(d), mostDays)
	}
	return time.Duration(n) * 24 * time.Hour, nil
}
