package journal

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
	key cosignVerifier

	mu      sync.Mutex
	silent  bool      // it did not cosign when it was asked last
	refuses bool      // nor will it, because of a restore, which is told
	heard   bool      // it did, and no alarm about it stands
	told    time.Time // when its silence raised an alarm last
}

const (
	witnessTimeout = 10 * time.Second
	// longestSilence is how long a witness may cosign nothing before that raises an alarm.
	longestSilence = 24 * time.Hour
	mostCosigned   = 16 << 10 // bytes of an answer
)

// newWitnesses reads witnesses, each its URL, a space and its verifier key.
func newWitnesses(texts []string) (list []*witness, err error) {
	for _, text := range texts {
		at, key, _ := strings.Cut(strings.TrimSpace(text), " ")
		u, err := url.Parse(at)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return nil, fmt.Errorf("the URL of a witness: %q is no http or https URL without query and password", at)
		}
		w := &witness{url: strings.TrimSuffix(at, "/")}
		if w.key, err = newCosignVerifier(key); err != nil {
			return nil, fmt.Errorf("the witness %s: %w; write its URL, a space and the key that whoever runs it has published", w.url, err)
		}
		list = append(list, w)
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
				w.silent, w.refuses, w.told = false, false, time.Time{}
				l.heard(ctx, w)
			case ctx.Err() != nil:
			case errors.Is(err, ErrBroken) && l.restoredSince(ctx, w):
				l.refused(ctx, w, err)
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
	lastCosignedSQL = `
SELECT c.size, c.lines, COALESCE(p.note, '') FROM audit_cosigned c LEFT JOIN audit_checkpoints p ON p.size = c.size
WHERE c.witness = $1 ORDER BY c.size DESC LIMIT 1`

	keepCosignedSQL = `
INSERT INTO audit_cosigned (witness, size, lines) VALUES ($1, $2, $3) ON CONFLICT (witness, size) DO UPDATE SET lines = $3`

	cosignedSQL = `SELECT lines FROM audit_cosigned WHERE witness = $1 AND size = $2`
)

// lastCosigned gives the size of the last head that a witness has cosigned, and when; 0: it has
// none, or none with this key. Who writes the database could say that it has cosigned what is still
// to come, so that it is asked no more: what its key did not sign counts for nothing.
func (l *Log) lastCosigned(ctx context.Context, w *witness) (size int64, at time.Time, err error) {
	var lines, signed string
	found, err := db.One(ctx, l.lists, lastCosignedSQL, []any{w.url}, &size, &lines, &signed)
	if err != nil || !found {
		return 0, at, err
	}
	c, err := openCheckpoint(signed, l.key.verifier)
	own := false
	if err == nil && c.Size == size {
		if at, own, err = w.signed(signed, lines); err == nil {
			if !own {
				size = 0
			}
			return size, at, nil
		}
	}
	l.failed(ctx, fmt.Errorf("%w: the witness %s has not cosigned its %d records as is kept", ErrBroken, w.url, size))
	return 0, at, nil
}

// signed gives when w has cosigned a checkpoint. own is false if nothing in lines is said to be of
// its key.
func (w *witness) signed(checkpoint, lines string) (at time.Time, own bool, err error) {
	n, err := note.Open([]byte(checkpoint+lines), note.VerifierList(w.key))
	var none *note.UnverifiedNoteError
	switch {
	case errors.As(err, &none):
		return at, false, nil
	case err != nil:
		return at, false, err
	}
	at, _ = timeOf(n.Sigs[0])
	return at, true, nil
}

// restoredSince reports whether a declared restore explains that a witness refuses the log: it has
// cosigned none of its heads since.
func (l *Log) restoredSince(ctx context.Context, w *witness) bool {
	e, err := db.LastEpoch(ctx, l.lists)
	if err != nil || e.Number == 0 {
		return false
	}
	size, _, err := l.lastCosigned(ctx, w)
	return err == nil && size <= e.Head.Size
}

// refused tells that a witness does not cosign because of a restore, once.
func (l *Log) refused(ctx context.Context, w *witness, cause error) {
	if !w.refuses {
		l.c.Log.Error("a witness refuses the log since the restore", "witness", w.url, "error", cause.Error())
		err := l.c.DB.RaiseAlarm(ctx, db.Alarm{Kind: client.AlarmWitnessRefuses, Subject: w.url, At: db.MillisOf(l.c.Now())})
		w.refuses = err == nil // else the next head tells
	}
	w.silent, w.heard = true, false
}

// unwitnessed tells that a witness does not cosign: once in the log, and by an alarm after a
// long silence.
func (l *Log) unwitnessed(ctx context.Context, w *witness, cause error) {
	if !w.silent {
		l.c.Log.Warn("a witness does not cosign", "witness", w.url, "error", cause.Error())
	}
	w.silent, w.heard = true, false
	_, at, err := l.lastCosigned(ctx, w)
	if err != nil {
		return // the database is away, which others report
	}
	since, now := l.opened, l.c.Now()
	if !at.IsZero() {
		since = at
	}
	if now.Sub(since) < longestSilence || now.Sub(w.told) < longestSilence {
		return
	}
	if err := l.c.DB.RaiseAlarm(ctx, db.Alarm{Kind: client.AlarmWitnessSilent, Subject: w.url, At: db.MillisOf(now)}); err == nil {
		w.told = now
	}
}

// heard ends the alarms about a witness, which another process may have raised.
func (l *Log) heard(ctx context.Context, w *witness) {
	if w.heard {
		return
	}
	err := l.c.DB.EndStanding(ctx, []db.Alarm{{Kind: client.AlarmWitnessSilent, Subject: w.url}, {Kind: client.AlarmWitnessRefuses, Subject: w.url}}, db.MillisOf(l.c.Now()))
	w.heard = err == nil // else the next head tries again
}

// submit asks a witness to cosign a checkpoint, and keeps what it answers. Its error wraps
// ErrBroken if the witness has cosigned what this log does not continue.
func (l *Log) submit(ctx context.Context, w *witness, c Checkpoint, signed string) error {
	old, _, err := l.lastCosigned(ctx, w)
	if err != nil {
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
			lines, err := w.cosignature(signed, answer)
			if err != nil {
				return err
			}
			return l.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
				_, err := t.Exec(ctx, keepCosignedSQL, w.url, c.Size, lines)
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

// cosignature gives the line of an answer that the witness's key has signed. Others count for
// nothing.
func (w *witness) cosignature(signed string, answer []byte) (string, error) {
	n, err := note.Open([]byte(signed+string(answer)), note.VerifierList(w.key))
	if err != nil {
		return "", fmt.Errorf("its answer is no cosignature of %s: %w", w.key.name, err)
	}
	return fmt.Sprintf("— %s %s\n", n.Sigs[0].Name, n.Sigs[0].Base64), nil
}

// cosigned gives the cosignatures of a checkpoint, one a line, which the keys of its witnesses
// have signed.
func (l *Log) cosigned(ctx context.Context, size int64, signed string) (all []string, err error) {
	for _, w := range l.witnesses {
		var lines string
		found, err := db.One(ctx, l.lists, cosignedSQL, []any{w.url, size}, &lines)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		if line, err := w.cosignature(signed, []byte(lines)); err == nil {
			all = append(all, strings.TrimSuffix(line, "\n"))
		}
	}
	return all, nil
}
