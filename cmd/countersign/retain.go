package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// retainFlags say how long a daemon keeps what is settled.
type retainFlags struct {
	Retain days `help:"How long what is settled stays in full, such as 90d; what its repetition needs stays for ever. 0: all stays." default:"0" placeholder:"DAYS"`
}

// days is a flag that holds a number of days, 0 for none.
type days time.Duration

// mostDays is a hundred years: no duration of that length overflows.
const mostDays = 36_500

// UnmarshalText takes 0, or a number of days with a d.
func (d *days) UnmarshalText(text []byte) error {
	if string(text) == "0" {
		*d = 0
		return nil
	}
	number, ok := strings.CutSuffix(string(text), "d")
	n, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil || n > mostDays {
		return fmt.Errorf("%q is neither 0 nor a number of days up to %dd, such as 90d", text, mostDays)
	}
	*d = days(time.Duration(n) * 24 * time.Hour)
	return nil
}
