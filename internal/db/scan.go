package db

import (
	"database/sql"
	"encoding/json"
	"fmt"
)

// scanner is a function as a destination of Rows.Scan.
type scanner func(src any) error

// Scan implements sql.Scanner.
func (s scanner) Scan(src any) error { return s(src) }

// Bool reads a column of 0 and 1, because the databases have no common boolean type.
func Bool(to *bool) sql.Scanner {
	return scanner(func(src any) error {
		n, is := src.(int64)
		if *to = n != 0; !is {
			return fmt.Errorf("a column of 0 and 1 has a %T", src)
		}
		return nil
	})
}

// Parsed reads a column of text by parse. An empty text leaves to as it is.
func Parsed[T any](to *T, parse func(string) (T, error)) sql.Scanner {
	return scanner(func(src any) (err error) {
		text, is := src.(string)
		if !is {
			return fmt.Errorf("a column of text has a %T", src)
		}
		if text != "" {
			*to, err = parse(text)
		}
		return err
	})
}

// JSON is Parsed for a column of JSON.
func JSON[T any](to *T) sql.Scanner {
	return Parsed(to, func(text string) (v T, err error) {
		err = json.Unmarshal([]byte(text), &v)
		return v, err
	})
}
