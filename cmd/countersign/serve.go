package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/signed"
)

// storeFlags say where a daemon keeps its state.
type storeFlags struct {
	DB               string `first:"" name:"db" help:"PostgreSQL in place of the embedded SQLite: postgres://USER@HOST/NAME, several hosts allowed." placeholder:"URL"`
	MasterKey        string `name:"master-key" help:"64 hexadecimal digits that seal secrets at rest, in place of the file master.key. Meant for the environment; every process of one database needs the same." placeholder:"HEX" hidden:""`
	MasterKeyCommand string `name:"master-key-command" help:"Program, with arguments, whose output is the master key, 64 hexadecimal digits. No shell; 30s." placeholder:"COMMAND"`
}

func (f storeFlags) storage(dir string, log *slog.Logger) (s daemon.Storage, err error) {
	s.Dir, s.DB = dir, f.DB
	s.Keys, err = daemon.GivenKey("master-key", f.MasterKey, f.MasterKeyCommand, log)
	return s, err
}

type serveCmd struct {
	Data         string `first:"" help:"Directory for what is made on first start: the database, master.key and admin.token." default:"./countersign-data" type:"path" placeholder:"DIR"`
	Listen       string `first:"" help:"Address of the API. Port 0 picks one, and the first log line names it." default:"127.0.0.1:8080" placeholder:"ADDR"`
	AllowPrivate bool   `first:"" help:"Let every merchant be on a private network or this machine."`
	AllowHTTP    bool   `first:"" name:"allow-http" help:"Let merchants' URLs be http."`
	daemonFlags
	MerchantPorts   []uint16      `help:"Ports at which merchants on public addresses may be called." default:"443,8443" placeholder:"PORT"`
	MerchantCA      string        `name:"merchant-ca" help:"File of authorities in PEM that are trusted for merchants beside the system's." placeholder:"FILE"`
	Node            string        `help:"Name of this process in leases and attempts; host and process id if empty." placeholder:"NAME"`
	ExchangeTimeout time.Duration `help:"Longest exchange with a merchant." default:"15s" placeholder:"TIME"`
	Lease           time.Duration `help:"How long a claimed callback belongs to this process; 30s longer than an exchange if 0." default:"0s" placeholder:"TIME"`
	Drain           time.Duration `help:"How long running exchanges may still take when the process stops; as long as an exchange if 0." default:"0s" placeholder:"TIME"`
}

// checkFlags ask what a start would do.
type checkFlags struct {
	Check bool `first:"" help:"Say what a start would find and do, as JSON, and do nothing. The exit status is 1 if it would fail."`
}

// checked prints what a start would find.
func (std streams) checked(list []daemon.Finding) error {
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

// consoleFlags say whether a daemon has a web console.
type consoleFlags struct {
	NoConsole bool `help:"Do not serve the web console at /console/ of the API."`
}

// oidcFlags say which identity provider people sign in with.
type oidcFlags struct {
	OIDCIssuer string   `first:"" name:"oidc-issuer" help:"Identity provider with which people sign in to the console, by OpenID Connect: its issuer, by https." placeholder:"URL"`
	OIDCClient string   `name:"oidc-client" help:"Id of the client that the provider made for this console." placeholder:"ID"`
	OIDCSecret secret   `name:"oidc-secret" help:"The client's secret, or @FILE; empty for a public client, which has PKCE alone." placeholder:"SECRET"`
	OIDCGroups []string `name:"oidc-groups" sep:"none" help:"Role of a group: GROUP=ROLE, or GROUP=ROLE:MERCHANT,MERCHANT. May be repeated; the first group that the person is in decides." placeholder:"ROW"`
	OIDCClaim  string   `name:"oidc-claim" help:"Member of the provider's tokens that has the groups; dots lead into objects, as in realm_access.roles." default:"groups" placeholder:"NAME"`
	OIDCScopes []string `name:"oidc-scopes" help:"What the provider is asked for beside openid. Without offline_access some providers give sessions of 15 minutes." default:"profile,email,offline_access" placeholder:"SCOPE"`
}

func (f oidcFlags) oidc() (daemon.OIDC, error) {
	secret, err := f.OIDCSecret.reveal("oidc-secret")
	return daemon.OIDC{Issuer: f.OIDCIssuer, Client: f.OIDCClient, Secret: client.Secret(secret), Groups: f.OIDCGroups, Claim: f.OIDCClaim, Scopes: f.OIDCScopes}, err
}

// Help is the long help of the subcommand.
func (serveCmd) Help() string {
	return "The service end: takes deposits and withdrawals over its API, tells merchants, judges their answers, and gives at most one " +
		"permit to execute a withdrawal. Starting needs nothing but the binary."
}

func (c *serveCmd) Run(std streams) error {
	log := c.logger(std.err)
	common, used, err := c.common(std, "serve", c.Data, log)
	if err != nil {
		return err
	}
	s, err := daemon.NewService(daemon.ServiceConfig{Common: common, Listen: c.Listen, Node: c.Node,
		AllowPrivate: c.AllowPrivate, AllowHTTP: c.AllowHTTP, MerchantPorts: c.MerchantPorts, MerchantCA: c.MerchantCA,
		ExchangeTimeout: c.ExchangeTimeout, Lease: c.Lease, DrainTimeout: c.Drain})
	if err != nil {
		return explainStart(err)
	}
	return c.run(std, s, log, func() {
		used()
		log.Info("serving", "api", s.URL(), "database", s.Dialect(), "version", daemon.Version, "data", c.Data)
	})
}

// explainStart adds what to try to the errors of a start.
func explainStart(err error) error {
	for missing, name := range map[error]string{daemon.ErrAlarmSecret: "alarm", daemon.ErrForwardSecret: "forward", daemon.ErrVerifySecret: "verify"} {
		if errors.Is(err, missing) {
			return &hintedError{fmt.Errorf("--%s-secret is missing: with --db there may be other processes, and all must sign with one secret", name),
				[]string{fmt.Sprintf(`make one: (umask 077; echo "whsec_$(openssl rand -base64 32)" > %[1]s.secret); then --%[1]s-secret @%[1]s.secret on each.`, name)}}
		}
	}
	switch {
	case errors.Is(err, daemon.ErrOlder):
		return &hintedError{err, []string{
			"stop, and restore it: countersign restore --from FILE, or with --db; docs/backup.md says what is held back until it is reconciled.",
			"if it is certain that nothing was lost, remove " + daemon.CheckpointFile + " from the data directory.",
		}}
	case errors.Is(err, daemon.ErrBroken):
		return &hintedError{err, []string{
			"keep a copy of the data directory as it is now, then restore the last backup: countersign restore --replace --from FILE.",
			"if nothing was ever kept here: remove master.key too, or give the key as COUNTERSIGN_MASTER_KEY, and a new database is made.",
		}}
	case errors.Is(err, daemon.ErrFull):
		return &hintedError{err, []string{"make 64 MiB of room on the disk of the data directory (df; with --db, on that of PostgreSQL), and start again: nothing that was acknowledged is lost."}}
	case errors.Is(err, daemon.ErrNoMasterKey):
		return &hintedError{err, []string{"put master.key back, or give the key as COUNTERSIGN_MASTER_KEY or with --master-key-command; no other key opens this database."}}
	case errors.Is(err, daemon.ErrOutdated):
		return &hintedError{err, []string{"countersign migrate --db URL, as the role that owns the tables; docs/operator.md says how two roles divide the work."}}
	}
	return err
}

// alarmFlags say where a daemon posts its alarms.
type alarmFlags struct {
	AlarmURL    string `first:"" name:"alarm-url" help:"Post alarms there as they are raised, grow and end: a webhook of yours, Slack, Mattermost, Discord or Teams (docs/operator.md). @FILE if its path is a secret." placeholder:"URL"`
	AlarmSecret secret `name:"alarm-secret" help:"What signs alarms: whsec_ and Base64, or @FILE; the file alarm.secret of the data directory if empty." placeholder:"SECRET"`
}

func (f alarmFlags) posting() (p daemon.AlarmPosting, err error) {
	if p.URL, err = secret(f.AlarmURL).reveal("alarm-url"); err != nil {
		return p, err
	}
	p.Secret, err = signingSecret("alarm-secret", f.AlarmSecret)
	return p, err
}

// signingSecret reads the secret of a flag, nil if the flag is not given.
func signingSecret(flag string, given secret) (signed.Secret, error) {
	text, err := given.reveal(flag)
	if err != nil || text == "" {
		return nil, err
	}
	secret, err := signed.ParseSecret(text)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return secret, nil
}

// limitFlags bound what a daemon's callers may cost it.
type limitFlags struct {
	BodyMemory     int64 `name:"body-memory" help:"Most MiB of request bodies and console forms that a listener holds at once; requests beyond it get 503." default:"256" placeholder:"MIB"`
	MaxConnections int   `name:"max-connections" help:"Most connections of a listener at once; beyond it idle ones are closed. 0: a share of the file descriptors." default:"0" placeholder:"N"`
}

func (f limitFlags) bodies() int64 { return max(f.BodyMemory, 1) << 20 }
