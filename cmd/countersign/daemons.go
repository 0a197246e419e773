package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/web"
)

// storeFlags select where an end keeps its state.
type storeFlags struct {
	DB               string `first:"" name:"db" help:"PostgreSQL in place of SQLite: postgres://USER@HOST/NAME, several hosts allowed." placeholder:"URL"`
	MasterKey        string `name:"master-key" help:"64 hexadecimal digits that seal secrets at rest, in place of the file master.key. Give it in the environment; every process of one database needs the same." placeholder:"HEX" hidden:""`
	MasterKeyCommand string `name:"master-key-command" help:"Program with arguments, without a shell, that prints the master key, 64 hexadecimal digits, within 30s." placeholder:"COMMAND"`
}

func (f storeFlags) storage(dir string, log *slog.Logger) (s daemon.Storage, err error) {
	s.Dir, s.DB = dir, f.DB
	s.Keys, err = daemon.ConfiguredKey("master-key", f.MasterKey, f.MasterKeyCommand, log)
	return s, err
}

// logFlags are the settings of a daemon's log.
type logFlags struct {
	LogFormat string     `help:"Form of the log: text or json." enum:"text,json" default:"text"`
	LogLevel  slog.Level `help:"Lowest level that is logged: debug, info, warn or error." default:"info"`
}

func (f logFlags) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel}
	if f.LogFormat == "json" {
		return slog.New(daemon.Seldom(slog.NewJSONHandler(w, options)))
	}
	return slog.New(daemon.Seldom(slog.NewTextHandler(w, options)))
}

// daemonFlags are the flags that serve and gateway share, except those of daemon.Common.
type daemonFlags struct {
	storeFlags
	AlarmURL    string `first:"" name:"alarm-url" help:"URL that alarms are posted to (docs/operator/README.md). @FILE if its path is a secret." placeholder:"URL"`
	AlarmSecret secret `name:"alarm-secret" help:"Secret that signs alarms: whsec_ and Base64, or @FILE. Empty: they are not signed." placeholder:"SECRET"`
	OIDCSecret  secret `name:"oidc-secret" help:"The client's secret, or @FILE; empty for a public client." placeholder:"SECRET"`
	New         bool   `help:"Start with an empty database. It takes deposits that were booked elsewhere for new ones."`
	logFlags
	Check bool `first:"" asks:"" env:"-" help:"Print as JSON what a start would find and do, without starting. The exit status is 1 if it would fail."`
}

// complete sets these flags in the configuration of the daemon that a settings file calls name. used must be called
// when the daemon has opened its database.
func (f *daemonFlags) complete(c *daemon.Common, std streams, name, dir string,
	log *slog.Logger) (used func(), err error) {
	if c.ChangeApprovals < 1 || c.ChangeApprovals > daemon.MaxChangeApprovals {
		return nil, fmt.Errorf("--change-approvals is %d: give 1 to %d", c.ChangeApprovals, daemon.MaxChangeApprovals)
	}
	collectSeldom()
	c.Log = log
	c.ShowToken = func(_, file string) {
		log.Warn("a database and its first token, of role admin, were made: deposits that were booked elsewhere are new here",
			"file", file)
	}
	if c.Alarms.URL, err = secret(f.AlarmURL).reveal("alarm-url"); err != nil {
		return nil, err
	}
	if c.Alarms.Secret, err = signingSecret("alarm-secret", f.AlarmSecret, false); err != nil {
		return nil, err
	}
	text, err := f.OIDCSecret.reveal("oidc-secret")
	if err != nil {
		return nil, err
	}
	c.OIDC.Secret = client.Secret(text)
	if used, err = f.begins(std, name, dir, log); err != nil {
		return nil, err
	}
	c.Storage, err = f.storage(dir, log)
	return used, err
}

// begins refuses a data directory without a database if daemons of this name kept one with the same settings file: a
// file beside it, with .used at the end, has their directories. Two starts may have different working directories, on
// which a relative data directory depends, but they have the settings file in common. used must be called when the
// daemon has opened its database.
func (f *daemonFlags) begins(std streams, end, dir string, log *slog.Logger) (used func(), err error) {
	if *std.settings == "" || f.DB != "" {
		return func() {}, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	file := kong.ExpandPath(string(*std.settings)) + ".used"
	list, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	last := ""
	for line := range strings.Lines(string(list)) {
		if text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), end+" "); ok {
			last = text
		}
	}
	_, err = os.Stat(filepath.Join(dir, daemon.DatabaseFile))
	if errors.Is(err, fs.ErrNotExist) && last != "" && !f.New {
		return nil, &hintedError{
			fmt.Errorf("--data: %s has no database, and %s was used with the one in %s: "+
				"a new database takes earlier deposits for new ones", dir, *std.settings, last),
			[]string{
				fmt.Sprintf("give --data %s, or write data = %q into the settings file; "+
					"if it is on a disk, look whether that is mounted.", last, last),
				"to begin anew: --new.",
			}}
	}
	return func() {
		if last == dir || strings.Contains(dir, "\n") {
			return
		}
		// Settings in a directory that the daemon may not write to, such as /etc, are not guarded. The data directory
		// is an absolute path there.
		w, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(w, "%s %s\n", end, dir)
			err = errors.Join(err, w.Close())
		}
		if err != nil {
			log.Debug("the data directory could not be noted beside the settings file", "error", err.Error())
		}
	}, nil
}

// signingSecret reads the secret of a flag, or returns nil if the flag is not given and not needed.
func signingSecret(flag string, value secret, needed bool) (web.Secret, error) {
	text, err := value.reveal(flag)
	switch {
	case err == nil && text == "" && needed:
		return nil, &hintedError{fmt.Errorf("--%s is missing: the receiver checks the signature", flag), []string{fmt.Sprintf(
			`make one: (umask 077; echo "whsec_$(openssl rand -base64 32)" > %[1]s); then --%[1]s @%[1]s, and give it to the receiver.`, flag)}}
	case err != nil || text == "":
		return nil, err
	}
	secret, err := web.ParseSecret(text)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return secret, nil
}

// run opens a daemon, calls opened, and runs it until a signal. With --check it only reports what a start would find.
func (f *daemonFlags) run(std streams, d interface {
	Check(context.Context) []daemon.Finding
	Open(context.Context) error
	Run(context.Context) error
}, log *slog.Logger, opened func()) error {
	if f.Check {
		list := d.Check(context.Background())
		if err := printJSON(std.out, list, "  "); err != nil {
			return err
		}
		for _, f := range list {
			if !f.OK {
				return fmt.Errorf("a start would fail: %s: %s", f.What, f.Text)
			}
		}
		return nil
	}
	ctx, stop := untilSignal(log)
	defer stop()
	if err := d.Open(ctx); err != nil {
		return explainStart(err)
	}
	opened()
	err := d.Run(ctx)
	log.Info("stopped")
	return err
}

// startHints say what to try after an error of a start.
var startHints = []struct {
	is  error
	try []string
}{
	{daemon.ErrOlder, []string{
		"stop, and restore it: countersign restore --from FILE, or with --db; docs/operator/backup.md says what is held back until it is reconciled.",
		"if it is certain that nothing was lost, remove " + daemon.CheckpointFile + " from the data directory.",
	}},
	{daemon.ErrBroken, []string{
		"keep a copy of the data directory as it is now, then restore the last backup: countersign restore --replace --from FILE.",
		"if nothing was ever kept here: remove master.key too, or give the key as COUNTERSIGN_MASTER_KEY, and a new database is made.",
	}},
	{daemon.ErrFull, []string{"make 64 MiB of room on the disk of the data directory (df; with --db, on that of PostgreSQL), and start again: nothing that was acknowledged is lost."}},
	{daemon.ErrNoMasterKey, []string{"put master.key back, or give the key as COUNTERSIGN_MASTER_KEY or with --master-key-command; no other key opens this database."}},
	{daemon.ErrOutdated, []string{"countersign migrate --db URL, as the role that owns the tables; docs/operator/README.md says how two roles divide the work."}},
}

// explainStart adds what to try to the errors of a start.
func explainStart(err error) error {
	for _, h := range startHints {
		if errors.Is(err, h.is) {
			return &hintedError{err, h.try}
		}
	}
	return err
}

type serveCmd struct {
	Data string `first:"" help:"Directory of the database, master.key and admin.token." default:"./countersign-data" type:"path" placeholder:"DIR"`
	daemon.ServiceConfig
	daemonFlags
}

func (c *serveCmd) Run(std streams) error {
	log := c.logger(std.err)
	used, err := c.complete(&c.Common, std, "serve", c.Data, log)
	if err != nil {
		return err
	}
	s, err := daemon.NewService(c.ServiceConfig)
	if err != nil {
		return explainStart(err)
	}
	return c.run(std, s, log, func() {
		used()
		log.Info("serving", "api", s.URL(), "database", s.Dialect(), "version", daemon.Version, "data", c.Data)
	})
}

// healthCmd asks a daemon whether it works, for images without another HTTP client.
type healthCmd struct {
	tlsClient
	API   string `name:"api" help:"URL of the daemon's API, or of a relay's --metrics-listen." default:"http://127.0.0.1:8080" placeholder:"URL" env:"COUNTERSIGN_API"`
	Ready bool   `help:"Ask whether it can work now, with its database."`
}

func (c *healthCmd) Run(std streams) error {
	web, err := c.web(daemon.Address{})
	if err != nil {
		return err
	}
	web.Timeout = 5 * time.Second // a daemon that takes longer does not work
	path := "/healthz"
	if c.Ready {
		path = "/readyz"
	}
	resp, err := web.Get(strings.TrimSuffix(c.API, "/") + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s\n", strings.TrimSpace(string(said)))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, resp.Status)
	}
	return nil
}
