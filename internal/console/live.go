package console

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"countersign/client"
)

const (
	liveEvery = 2 * time.Second // between two readings of what a live part shows
	// checkEvery is the time between two checks of the session. Another node may take a
	// revoked token for 400 ms more: together that is less than a second.
	checkEvery = 250 * time.Millisecond
	liveWrite  = 10 * time.Second

	renderTurns = int(liveEvery / checkEvery)
	sendTurns   = 10 * renderTurns // what has not changed is sent too: a browser that is gone shows
)

// live keeps a part of a page up to date: it sends the part each time that it has
// changed, as server-sent events, until the browser leaves or the session ends.
func (v *visit) live(render func() (string, error)) error {
	h := v.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(v.w)
	send := func(event, data string) error {
		_ = out.SetWriteDeadline(time.Now().Add(liveWrite)) // a writer without deadlines is a test's
		if _, err := fmt.Fprintf(v.w, "event: %s\ndata: %s\n\n", event, strings.ReplaceAll(data, "\n", "\ndata: ")); err != nil {
			return err
		}
		return out.Flush()
	}
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	token, err := v.c.signedIn(v.r.Context(), v.r)
	if err != nil {
		return err
	}
	var last string
	for turn := 0; ; turn++ {
		if turn%renderTurns == 0 {
			part, err := render()
			switch {
			case errors.Is(err, client.ErrUnauthorized):
				return send("ended", "")
			case err != nil:
				err = send("trouble", strings.Join(sentences(err), " "))
			case part != last || turn%sendTurns == 0:
				last = part
				err = send("part", part)
			}
			if err != nil {
				return nil // the browser is gone
			}
		}
		select {
		case <-check.C:
		case <-v.c.stopping:
			return nil
		case <-v.r.Context().Done():
			return nil
		}
		_, err := v.c.signedIn(v.r.Context(), v.r)
		if err == nil {
			err = v.enter(token)
		}
		switch {
		case errors.Is(err, errSignedOut):
			_ = send("ended", "")
			return nil
		case err != nil:
			_ = send("trouble", strings.Join(sentences(err), " "))
		}
	}
}
