package daemon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"countersign/internal/db"
)

// Finding is one thing that a start would find or do.
type Finding struct {
	What string `json:"what"` // "data directory", "database", "master key" or a listener
	// OK reports whether a start would get past it.
	OK   bool   `json:"ok"`
	Text string `json:"text"`
}

func (s Storage) check(ctx context.Context, gateway bool, secure TLS, log *slog.Logger,
	listeners [][2]string) (list []Finding) {
	say := func(what string, err error, text string, args ...any) {
		if err != nil {
			list = append(list, Finding{what, false, err.Error()})
			return
		}
		list = append(list, Finding{what, true, fmt.Sprintf(text, args...)})
	}
	switch err := s.private(); {
	case errors.Is(err, fs.ErrNotExist):
		say("data directory", nil, "%s would be made", s.Dir)
	case err != nil:
		say("data directory", err, "")
		return list // what is in it is not opened
	default:
		say("data directory", nil, "%s is there", s.Dir)
	}
	say("disk", roomFor(s.Dir), "it has more than %d MiB left", startRoom>>20)
	running := s.running()
	looked, signing := false, "the signing key would be made"
	err := db.Look(ctx, s.url(), endOf(gateway), log, func(l db.Seen) error {
		looked = true
		damaged := l.CheckPages(ctx)
		switch {
		case damaged != nil:
			say("database", fmt.Errorf("%w: restore a backup", damaged), "")
		case !l.Made && s.DB == "" && s.Keys == nil && len(s.masterKeys()) > 0:
			say("database", fmt.Errorf("%w: %s is missing, and there is a master key", ErrBroken, s.url()), "")
		case l.Backup:
			say("database", fmt.Errorf("%w: it is a backup", ErrOlder), "")
		case l.InUse && running != "":
			say("database", nil, "%s has it and runs", running)
		case l.InUse:
			say("database", fmt.Errorf("%w: %s", db.ErrInUse, s.url()), "")
		case l.Schema < l.Knows && l.MayChange != nil:
			say("database", fmt.Errorf("%w: its schema has number %d, this program needs %d, and %w: run countersign migrate with a role that may", ErrOutdated, l.Schema, l.Knows, l.MayChange), "")
		case l.Schema == 0:
			say("database", nil, "its tables would be made")
		case l.Schema < l.Knows:
			say("database", nil, "its schema has number %d and would be brought to %d", l.Schema, l.Knows)
		default:
			say("database", nil, "its schema has number %d; this program knows %d", l.Schema, l.Knows)
		}
		key, err := s.keyOf(ctx, l)
		switch {
		case errors.Is(err, ErrNoMasterKey) && l.Schema == 0:
			say("master key", nil, "%s would be made", s.file(MasterKeyFile))
		case err != nil:
			say("master key", err, "")
		default:
			say("master key", nil, "fingerprint %s", key.Fingerprint())
			if l.Schema == 0 {
				break
			}
			signer, next, err := lookAtSigningKeys(ctx, l, key)
			if signer != nil {
				signing = "public part " + signer.PublicBase64()
			}
			if next != nil {
				signing += "; its successor " + next.PublicBase64()
			}
			if err != nil {
				say("signing key", err, "")
				signing = ""
			}
		}
		if signing != "" {
			say("signing key", nil, "%s", signing)
		}
		return nil
	})
	if err != nil || !looked {
		say("database", err, "")
	}
	_, err = secure.certificates(log)
	if err != nil {
		say("tls", err, "")
	}
	for _, l := range listeners {
		if l[1] == "" {
			continue
		}
		switch err := isFree(l[1]); {
		case running != "" && errors.Is(err, syscall.EADDRINUSE):
			say(l[0], nil, "%s is in use, while %s runs", l[1], running)
		default:
			say(l[0], taken(err, listeners), "%s is free", l[1])
		}
	}
	return list
}

// running returns the name of the daemon of the data directory, or "" if its API does not answer.
func (s Storage) running() string {
	a, err := ReadAddress(s.Dir)
	if err != nil {
		return ""
	}
	u, err := url.Parse(a.URL)
	if err != nil || daemonAt(u.Host) == "" {
		return ""
	}
	return "the daemon at " + a.URL
}

// isFree binds an address for a moment to see whether it is free.
func isFree(address string) error {
	ln, err := World{}.listen(address)
	if err != nil {
		return err
	}
	return ln.Close()
}

// taken adds to the error of an address in use which daemon of this project uses it, if one answers at one of the
// listeners' addresses.
func taken(err error, listeners [][2]string) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	for _, l := range listeners {
		if who := daemonAt(l[1]); who != "" {
			return fmt.Errorf("%w: %s answers at %s", err, who, l[1])
		}
	}
	return err
}

// daemonAt returns the name of the daemon of this project whose API is at an address, or "".
func daemonAt(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	// Nothing secret is sent and the answer is not trusted, so any certificate will do.
	web := &http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for _, scheme := range []string{"http", "https"} {
		resp, err := web.Get(scheme + "://" + net.JoinHostPort(host, port) + "/openapi.json")
		if err != nil {
			continue
		}
		var said struct {
			Info struct{ Title, Version string }
		}
		err = json.NewDecoder(io.LimitReader(resp.Body, 8<<20)).Decode(&said)
		_ = resp.Body.Close() // it was only read
		if end, ours := strings.CutPrefix(said.Info.Title, "countersign "); ours && err == nil {
			return fmt.Sprintf("a countersign %s, version %.40q,", strings.TrimSuffix(end, " API"), said.Info.Version)
		}
	}
	return ""
}

// firstStart returns the error that the first start of a data directory would meet, before the start makes a key or a
// database. Nobody should find these beside a daemon that never ran.
func (s Storage) firstStart(secure TLS, listeners [][2]string, log *slog.Logger) error {
	if _, err := os.Stat(s.file(DatabaseFile)); s.DB != "" || s.World.Listen != nil || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := secure.certificates(log); err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	for _, l := range listeners {
		if err := isFree(l[1]); l[1] != "" && err != nil {
			return taken(fmt.Errorf("listening on %s: %w", l[1], err), listeners)
		}
	}
	return nil
}
