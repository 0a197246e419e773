// Command countersign is both ends of the custody callback protocol in one binary: keys, single messages, and the
// daemons.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"countersign/countersigntest"
	"countersign/internal/daemon"
)

//lint:file-ignore SA5008 kong takes each of several tags named set: one sets one variable of the help.

// commandLine is the whole command line, with a field for each subcommand.
type commandLine struct {
	Config  kong.ConfigFlag  `help:"TOML file of settings, a table a subcommand." placeholder:"FILE"`
	Version kong.VersionFlag `help:"Say which build this is." env:"-"`
	HelpAll helpAllFlag      `help:"Show every flag." env:"-" hidden:""`

	Demo  demoCmd  `cmd:"" help:"Run both ends on this machine with real deposits and check both databases; the exit status is 0 only if all of it holds."`
	Serve serveCmd `cmd:"" first:"" help:"Run the service: take deposits and withdrawals over its API, tell merchants, judge their answers, and give one permit an execution."`

	Merchants   merchantsCmd        `cmd:"" help:"The service's merchants."`
	Callbacks   callbacksCmd        `cmd:"" help:"The service's callbacks."`
	Withdrawals withdrawalsCmd      `cmd:"" help:"The service's withdrawals."`
	Freeze      oneCmd[atService]   `cmd:"" help:"Stop sending, deciding and releasing for all merchants of the service; api frozen says whether it is." set:"op=freeze" is:"reason" set:"what=Why, for everybody who meets the freeze."`
	Thaw        plainCmd[atService] `cmd:"" help:"End the freeze of the service." set:"op=thaw"`

	Gateway gatewayCmd `cmd:"" first:"" help:"Run the merchant end: take each deposit once, confirm the withdrawals that were ordered through its API, and tell the application."`

	Orders   ordersCmd   `cmd:"" help:"The merchant's orders, at the gateway."`
	Deposits depositsCmd `cmd:"" help:"The merchant's deposits, at the gateway."`
	Provider providerCmd `cmd:"" help:"What the provider does, as seen by a gateway that ran with --learn."`

	Tasks  tasksCmd            `cmd:"" help:"What waits for persons, at either end."`
	Search listOfCmd[atEither] `cmd:"" help:"Find what has a text as an identifier, user, address or transaction, at either end." set:"op=search" is:"q" set:"what=The whole text." columns:"KIND|ID|MERCHANT|MATCHED|STATE|AT"`
	Alarms alarmsCmd           `cmd:"" help:"Alarms of either end."`
	Token  tokenCmd            `cmd:"" help:"API tokens of either end."`
	Audit  auditCmd            `cmd:"" help:"The audit log of either end: read it, export it, prove a record, verify."`
	API    apiCmd              `cmd:"" name:"api" help:"Call any operation of either end's API; without one, list them."`

	Backup  backupCmd  `cmd:"" help:"Copy the service's database into a file, also while it runs; with --gateway, the gateway's."`
	Restore restoreCmd `cmd:"" help:"Put a backup in the place of the service's database; with --gateway, of the gateway's."`

	Rekey   rekeyCmd   `cmd:"" help:"Seal the service's secrets under a new master key while no daemon runs; with --gateway, the gateway's."`
	Migrate migrateCmd `cmd:"" help:"Bring the service's database up to date; with --gateway, the gateway's."`

	NoApprovers noApproversCmd `cmd:"" help:"Let one person decide alone at the service again: end all approvers' tokens; with --gateway, at the gateway."`

	Reconcile reconcileCmd `cmd:"" help:"Compare the service's database with what was executed and booked, and settle a restore; with --gateway, the gateway's."`

	Relay relayCmd `cmd:"" help:"Carry deposits and withdrawals from a table of the wallet core's PostgreSQL to the service, and decisions and permits back."`

	Policy policyCmd `cmd:"" help:"Policy files of the gateway: check them and try them on an order."`

	Permit permitCmd `cmd:"" help:"Check a signed permit without the service."`
	Keys   keysCmd   `cmd:"" help:"Make RSA key pairs and show what a key is."`
	Seal   sealCmd   `cmd:"" help:"Seal one message: plaintext in, Base64 body out."`
	Open   openCmd   `cmd:"" help:"Open one body: Base64 in, plaintext out."`
	Send   sendCmd   `cmd:"" help:"Play the provider: send a merchant's endpoint one callback, and say what came back and what to mend."`
	Listen listenCmd `cmd:"" help:"Play a merchant: show each callback, and answer as the flags say."`
	Check  checkCmd  `cmd:"" help:"Check a merchant's endpoint against every rule, case by case."`
	Bench  benchCmd  `cmd:"" help:"Measure this machine, with the RSA bound in the same run."`
	Health healthCmd `cmd:"" help:"Ask a daemon whether it works; the exit status is 1 if it does not."`
}

func main() { os.Exit(run(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})) }

// run runs a command line and returns the exit status.
func run(args []string, std streams) int {
	p, err := newParser()
	if err != nil {
		fmt.Fprintln(std.err, "countersign:", err)
		return exitFailed
	}
	return p.run(args, std)
}

// parser reads command lines, one after the other.
type parser struct {
	*kong.Kong
	line   commandLine
	std    streams
	status int // set where kong ends the program, as --help does; else -1
}

// run parses args, runs the subcommand and returns the exit status.
func (p *parser) run(args []string, std streams) int {
	std.settings, std.file, std.called = &p.line.Config, &settingsFile{}, new(string)
	p.std, p.Stdout, p.Stderr, p.status = std, std.out, std.err, -1
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:], "--help")
	}
	ctx, err := p.Parse(wordsFirst(p.Model.Node, args))
	if p.status >= 0 {
		return p.status
	}
	if err != nil {
		if strings.Contains(err.Error(), "PRIVATE KEY-----") {
			err = errors.New("that is a private key, and the command line is read by others: give the public part, or @FILE")
		}
		words := "countersign"
		if wrong := new(kong.ParseError); errors.As(err, &wrong) && wrong.Context.Selected() != nil {
			words = wrong.Context.Selected().FullPath()
		}
		report(std.err, asksJSON(args), &hintedError{err, []string{words + " --help"}})
		return exitUsage
	}
	if err := ctx.Run(); err != nil {
		report(std.err, logsJSON(ctx), explain(*std.called, err))
		var status statusError
		if errors.As(err, &status) {
			return status.status
		}
		return exitFailed
	}
	return exitDone
}

// wordsFirst moves the words of a command before its flags: kong accepts NAME=VALUE only there.
func wordsFirst(root *kong.Node, args []string) []string {
	node, n := root, 0
	for ; n < len(args); n++ {
		i := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return c.Name == args[n] })
		if i < 0 {
			break
		}
		node = node.Children[i]
	}
	if n == 0 || node.DefaultCmd != nil {
		return args
	}
	known := slices.Concat(node.Flags, root.Flags)
	words, flags := slices.Clone(args[:n]), []string{}
	for rest := args[n:]; len(rest) > 0; rest = rest[1:] {
		name := strings.TrimLeft(rest[0], "-")
		switch isFlag := name != rest[0] && name != ""; {
		case !isFlag:
			words = append(words, rest[0])
		case len(rest) > 1 && slices.ContainsFunc(known, func(f *kong.Flag) bool {
			return !f.IsBool() && (f.Name == name || string(f.Short) == name)
		}):
			flags = append(flags, rest[0], rest[1])
			rest = rest[1:]
		default:
			flags = append(flags, rest[0])
		}
	}
	return append(words, flags...)
}

func newParser() (p *parser, err error) {
	p = &parser{std: streams{file: &settingsFile{}}}
	p.Kong, err = kong.New(&p.line,
		kong.Name("countersign"),
		kong.Description("Deposits and withdrawals between a wallet service and its merchants: sealed, answered, decided once."),
		kong.Exit(func(code int) { p.status = code }),
		kong.DefaultEnvars("COUNTERSIGN"),
		kong.Configuration(func(r io.Reader) (kong.Resolver, error) { return p.std.file.load(r) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Help(shortHelp),
		kong.Vars{"withdrawal": withdrawalText, "task": taskText, "handover": handoverText, "op": "OPERATION",
			"version":       fmt.Sprint("countersign ", daemon.ThisBuild()),
			"serviceFaults": namesOf(countersigntest.ServiceFaults), "merchantFaults": namesOf(countersigntest.MerchantFaults)},
		kong.ExplicitGroups([]kong.Group{{Key: "profile", Title: "What the provider does:"}}),
		kong.BindToProvider(func() streams { return p.std }),
		kong.BindTo(context.Background(), (*context.Context)(nil)),
	)
	return p, err
}

// shortHelp prints --help. For a daemon, which is marked as first, it leaves out the flags that are not marked so, and
// the names of environment variables.
func shortHelp(o kong.HelpOptions, ctx *kong.Context) error {
	node := ctx.Selected()
	if node == nil || !node.Tag.Has("first") {
		return kong.DefaultHelpPrinter(o, ctx)
	}
	for _, f := range node.Flags {
		f.Hidden = f.Hidden || !f.Tag.Has("first")
	}
	o.ValueFormatter = func(v *kong.Value) string { return v.Help }
	err := kong.DefaultHelpPrinter(o, ctx)
	fmt.Fprintf(ctx.Stdout, "\ncountersign %s --help-all shows the others. Each can also be a line of the settings file\n"+
		"or a variable, such as COUNTERSIGN_DATA.\n", node.Name)
	return err
}

// helpAllFlag is --help-all.
type helpAllFlag bool

// BeforeReset is called if the flag is given.
func (helpAllFlag) BeforeReset(ctx *kong.Context) error {
	err := kong.DefaultHelpPrinter(kong.HelpOptions{Compact: true, ValueFormatter: kong.DefaultHelpValueFormatter}, ctx)
	ctx.Exit(0)
	return err
}

// namesOf returns the values of a flag that takes one of faults or none, for kong.
func namesOf[F ~string](faults []F) (names string) {
	for _, f := range faults {
		names += "," + string(f)
	}
	return names
}
