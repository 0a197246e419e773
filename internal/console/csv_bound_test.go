package console

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign/client"
)

type grain struct {
	N int `json:"n"`
}

type grains struct {
	Grains []grain
	Next   *string
}

// TestSheetIsBounded: a list that is longer than a file says so in the last row, one that is as
// long does not, and one whose reading fails later is cut off, so that it does not look whole.
func TestSheetIsBounded(t *testing.T) {
	c := &Console{Config: Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}}
	write := func(pages, rows int, fails bool) (body string, err error) {
		w := httptest.NewRecorder()
		v := &visit{c: c, w: w, r: httptest.NewRequest("GET", "/console/callbacks?format=csv", nil)}
		defer func() {
			body = w.Body.String()
			if p := recover(); p != nil {
				err, _ = p.(error)
			}
		}()
		n := 0
		return "", writeSheet(v, func(client.PageOptions) (part grains, err error) {
			n++
			if fails && n > 1 {
				return part, errors.New("away")
			}
			if part.Grains = make([]grain, rows); n < pages {
				part.Next = new(string)
			}
			return part, nil
		})
	}
	for _, c := range []struct {
		pages, rows int
		lines       int
		more        bool
	}{{1, 3, 4, false}, {sheetPages, 1, sheetPages + 1, false}, {sheetPages + 1, 1, sheetPages + 2, true}} {
		body, err := write(c.pages, c.rows, false)
		if lines := strings.Count(body, "\n"); err != nil || lines != c.lines || strings.Contains(body, "There may be more") != c.more {
			t.Errorf("%d pages of %d: %d lines, %v", c.pages, c.rows, lines, err)
		}
	}
	if body, err := write(2, 5, true); !errors.Is(err, http.ErrAbortHandler) || strings.Count(body, "\n") != 6 {
		t.Errorf("%v %q", err, body)
	}
}
