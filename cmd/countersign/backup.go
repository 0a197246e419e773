package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"countersign/internal/daemon"
)

// placeFlags select the data directory, and with it the end, that a subcommand works on.
type placeFlags struct {
	Data string `help:"Data directory of the end. Default: that of the settings file, or ./countersign-data, for the gateway ./countersign-gateway-data." type:"path" placeholder:"DIR"`
	endFlags
}

// AfterApply finds the end, and sets Data and Gateway.
func (f *placeFlags) AfterApply(std streams) error {
	at, err := findPlace(std, f.end(), f.Data)
	f.Data, f.Gateway = at.dir, at.end == gatewayEnd
	return err
}

type backupCmd struct {
	placeFlags
	To string `help:"The new file. Required." required:"" type:"path" placeholder:"FILE" env:"-"`
}

// Help is the long help of the subcommand.
func (backupCmd) Help() string {
	return "The copy shows the database at one moment. It holds no other file of the data directory: keep master.key somewhere else, " +
		"because the copy is of no use without it. Only restore opens it. PostgreSQL is backed up by its own means: see docs/operator/backup.md."
}

// backedUp is the output of backup.
type backedUp struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	daemon.Held
}

func (c *backupCmd) Run(std streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	held, err := daemon.Backup(ctx, c.Data, c.To)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	info, err := os.Stat(c.To)
	if err != nil {
		return err
	}
	return printJSON(std.out, backedUp{c.To, info.Size(), held}, "  ")
}

type restoreCmd struct {
	placeFlags
	storeFlags
	From    string `help:"Backup of a SQLite database. PostgreSQL: put the database back by its own means, then give --db." type:"path" placeholder:"FILE" env:"-"`
	Replace bool   `help:"Replace the database that is there, and keep it under another name." env:"-"`
}

// Help is the long help of the subcommand.
func (restoreCmd) Help() string {
	return "The backup does not know what happened after it was made. So an epoch begins: the service releases nothing, and the gateway " +
		"holds every deposit, until countersign reconcile --settle. No process may use the database meanwhile, and master.key must be in place."
}

func (c *restoreCmd) Run(std streams) error {
	log := std.warnings()
	storage, err := c.storage(c.Data, log)
	if err != nil {
		return err
	}
	r, err := daemon.Restore(context.Background(), daemon.RestoreConfig{Storage: storage, Gateway: c.Gateway, From: c.From, Replace: c.Replace, Log: log})
	if err != nil {
		return explainStart(fmt.Errorf("restore: %w", err))
	}
	fmt.Fprintln(std.err, c.steps(r))
	return printJSON(std.out, r, "  ")
}

// steps returns what to do after a restore, in the order that works.
func (c *restoreCmd) steps(r daemon.Restored) string {
	place := " --data " + c.Data
	if c.Gateway {
		place = " --gateway" + place
	}
	if c.DB != "" {
		place += " --db URL"
	}
	var steps []string
	add := func(text string, commands ...string) {
		steps = append(steps, strings.Join(append([]string{fmt.Sprintf("%d. %s", len(steps)+1, text)}, commands...), "\n     countersign "))
	}
	if c.Gateway {
		add("Stop the application that reads the feeds. Write what it has booked (booked.ndjson): every deposit, and every order with its state. docs/operator/backup.md has the lines.")
		add(fmt.Sprintf("Look, then settle. %d orders had not ended in the backup; those that the file does not name stay closed until a person resumes each:", r.Undecided),
			"reconcile"+place+" --booked booked.ndjson", "reconcile"+place+" --booked booked.ndjson --settle")
		after, since := "", ""
		if r.Newest != 0 {
			after, since = " since "+r.Newest.String(), " since="+r.Newest.String()
		}
		add("Start the gateway, then the application; it goes on where a 409 tells it to. What came"+after+" and was not booked may be lost. A service of this project tells it again:",
			"reconcile --service-api URL --service-token @operator.token --gateway-api URL --gateway-token @viewer.token --merchant ID --settle")
		add("Any other provider: ask it to send every callback"+after+" again, which books nothing twice, and compare its list of deposits with the one here. One that it cannot send again, a person books in the application:",
			"api searchDeposits"+since+" --gateway --data "+c.Data)
	} else {
		add("Stop what executes withdrawals. Write what the core says of every withdrawal (executed.ndjson) and has added (added.ndjson), and what the merchants have booked (booked.ndjson). docs/operator/backup.md has the lines.")
		files := " --executed executed.ndjson --added added.ndjson --booked booked.ndjson"
		add(fmt.Sprintf("Look, then settle. %d withdrawals had not ended in the backup; those that no file names stay closed until a person resumes each:", r.Undecided),
			"reconcile"+place+files, "reconcile"+place+files+" --settle")
		add("Start the service, let the relay write decisions again, and add again what was named added_unknown:",
			"relay cursor --next-epoch --from URL --to URL --token @relay.token")
	}
	add("Tokens that were revoked after the backup are valid again, and those that were made after it are gone. Revoke again what your notes or the exported audit log name:",
		"api tokens"+map[bool]string{true: " --gateway"}[c.Gateway])
	return "what to do now:\n" + strings.Join(steps, "\n")
}
