package audit

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"countersign/client"
	"countersign/internal/db"
)

// A witness cosigns heads of the log as C2SP tlog-witness says: it keeps the last head that it
// has cosigned, and cosigns no other log. What it has cosigned cannot be written again, not
// even by who has the master key.
type witness struct {
	url string

	mu     sync.Mutex
	silent bool      // it did not cosign when it was asked last
	heard  bool      // it did, and no alarm of its silence stands
	told   time.Time // when its silence raised an alarm last
}

const (
	witnessTimeout = 10 * time.Second
	// longestSilence is how long a witness may cosign nothing before that raises an alarm.
	longestSilence = 24 * time.Hour
	mostCosigned   = 16 << 10 // bytes of an answer
)

// newWitnesses checks the URLs of witnesses.
func newWitnesses(urls []string) (list []*witness, err error) {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return nil, fmt.Errorf("the URL of a witness: %q is no http or https URL without query and password", text)
		}
		list = append(list, &witness{url: strings.TrimSuffix(text, "/")})
	}
	return list, nil
}

// witnessClient keeps no connections: it is used once a minute.
var witnessClient = &http.Client{
	Timeout:       witnessTimeout,
	Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// cosign has a checkpoint cosigned by every witness that has not. A witness that was silent is
// asked again by Run alone (all), since callers wait for it.
func (l *Log) cosign(ctx context.Context, c Checkpoint, signed string, all bool) {
	if c.Size == 0 {
		return
	}
	var work sync.WaitGroup
	for _, w := range l.witnesses {
		work.Go(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.silent && !all {
				return
			}
			err := l.submit(ctx, w, c, signed)
			switch {
			case err == nil:
				if w.silent {
					l.c.Log.Info("a witness cosigns again", "witness", w.url)
				}
				w.silent, w.told = false, time.Time{}
				l.heard(ctx, w)
			case ctx.Err() != nil:
			case errors.Is(err, ErrBroken):
				l.failed(ctx, err)
			default:
				l.unwitnessed(ctx, w, err)
			}
		})
	}
	work.Wait()
}

const (
	lastCosignedSQL = `SELECT size, at FROM audit_cosigned WHERE witness = $1 ORDER BY size DESC LIMIT 1`

	keepCosignedSQL = `INSERT INTO audit_cosigned (witness, size, at, lines) VALUES ($1, $2, $3, $4) ON CONFLICT (witness, size) DO NOTHING`

	cosignedSQL = `SELECT lines FROM audit_cosigned WHERE size = $1 ORDER BY witness`
)

// unwitnessed tells that a witness does not cosign: once in the log, and by an alarm after a
// long silence.
func (l *Log) unwitnessed(ctx context.Context, w *witness, cause error) {
	if !w.silent {
		l.c.Log.Warn("a witness does not cosign", "witness", w.url, "error", cause.Error())
	}
	w.silent, w.heard = true, false
	var size int64
	var at db.Millis
	if _, err := db.One(ctx, l.lists, lastCosignedSQL, []any{w.url}, &size, &at); err != nil {
		return // the database is away, which others report
	}
	since, now := l.opened, l.c.Now()
	if at != 0 {
		since = at.Time()
	}
	if now.Sub(since) < longestSilence || now.Sub(w.told) < longestSilence {
		return
	}
	if err := l.c.DB.RaiseAlarm(ctx, db.Alarm{Kind: client.AlarmWitnessSilent, Subject: w.url, At: db.MillisOf(now)}); err == nil {
		w.told = now
	}
}

// heard ends the alarm of a witness's silence, which another process may have raised.
func (l *Log) heard(ctx context.Context, w *witness) {
	if w.heard {
		return
	}
	err := l.c.DB.EndStanding(ctx, []db.Alarm{{Kind: client.AlarmWitnessSilent, Subject: w.url}}, db.MillisOf(l.c.Now()))
	w.heard = err == nil // else the next head tries again
}

// submit asks a witness to cosign a checkpoint, and keeps what it answers. Its error wraps
// ErrBroken if the witness has cosigned what this log does not continue.
func (l *Log) submit(ctx context.Context, w *witness, c Checkpoint, signed string) error {
	var old, at int64
	if _, err := db.One(ctx, l.lists, lastCosignedSQL, []any{w.url}, &old, &at); err != nil {
		return err
	}
	if old >= c.Size {
		return nil
	}
	for range 3 { // other nodes may submit too
		status, answer, err := l.addCheckpoint(ctx, w, old, c, signed)
		if err != nil {
			return err
		}
		switch status {
		case http.StatusOK:
			lines, err := l.cosignatures(signed, answer)
			if err != nil {
				return err
			}
			return l.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
				_, err := t.Exec(ctx, keepCosignedSQL, w.url, c.Size, int64(db.MillisOf(l.c.Now())), lines)
				return err
			})
		case http.StatusConflict:
			has, err := strconv.ParseInt(strings.TrimSuffix(string(answer), "\n"), 10, 64)
			if err != nil || has < 0 {
				return errors.New("its answer 409 does not say how many records it has cosigned")
			}
			last, err := l.last(ctx)
			switch {
			case err != nil:
				return err
			case has > last.Size:
				return fmt.Errorf("%w: the witness %s has cosigned %d records, and it has %d", ErrBroken, w.url, has, last.Size)
			case has > c.Size:
				return nil // another node was first
			case has == old:
				return fmt.Errorf("%w: the witness %s has cosigned %d other records", ErrBroken, w.url, has)
			}
			old = has
		case http.StatusUnprocessableEntity:
			return fmt.Errorf("%w: the witness %s has cosigned %d records that are not its beginning", ErrBroken, w.url, old)
		default:
			return fmt.Errorf("it answers %d", status)
		}
	}
	return errors.New("it says another number of records each time")
}

// addCheckpoint posts a checkpoint with the proof that it continues one of old records.
func (l *Log) addCheckpoint(ctx context.Context, w *witness, old int64, c Checkpoint, signed string) (status int, answer []byte, err error) {
	var proof tlog.TreeProof
	if 0 < old && old < c.Size {
		if proof, err = tlog.ProveTree(c.Size, old, l.reader(ctx)); err != nil {
			return 0, nil, err
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "old %d\n", old)
	for _, h := range proof {
		fmt.Fprintln(&b, base64.StdEncoding.EncodeToString(h[:]))
	}
	fmt.Fprintf(&b, "\n%s", signed)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/add-checkpoint", &b)
	if err != nil {
		return 0, nil, err
	}
	response, err := witnessClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, mostCosigned))
	return response.StatusCode, answer, err
}

// cosignatures gives the lines of an answer that are cosignatures by their form. Whoever has
// the key of a witness verifies them.
func (l *Log) cosignatures(signed string, answer []byte) (string, error) {
	own, err := note.NewVerifier(l.key.verifier)
	if err != nil {
		return "", err
	}
	n, err := note.Open([]byte(signed+string(answer)), note.VerifierList(own))
	if err != nil {
		return "", fmt.Errorf("its answer is no cosignature: %w", err)
	}
	var lines strings.Builder
	for _, s := range n.UnverifiedSigs {
		if _, ok := timeOf(s); ok {
			fmt.Fprintf(&lines, "— %s %s\n", s.Name, s.Base64)
		}
	}
	if lines.Len() == 0 {
		return "", errors.New("its answer has no cosignature of version 1")
	}
	return lines.String(), nil
}

// cosigned gives the cosignatures of a checkpoint, one a line.
func (l *Log) cosigned(ctx context.Context, size int64) (all []string, err error) {
	err = db.Each(ctx, l.lists, cosignedSQL, []any{size}, func(r db.Rows) error {
		var lines string
		err := r.Scan(&lines)
		for line := range strings.Lines(lines) {
			all = append(all, strings.TrimSuffix(line, "\n"))
		}
		return err
	})
	return all, err
}
