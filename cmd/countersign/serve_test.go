package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"

	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

// shell runs a subcommand in this process as a shell would.
func shell(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	status = runHere(args, streams{in: strings.NewReader(stdin), out: &out, err: &errOut})
	return status, out.String(), errOut.String()
}

// parsers are those that no command line uses at present: making one takes longer than most commands. A sync.Pool would
// lose them with each collection of garbage.
var parsers = make(chan *parser, 16)

// runHere is run with one of parsers.
func runHere(args []string, std streams) int {
	var p *parser
	select {
	case p = <-parsers:
	default:
		p = must(newParser())
	}
	status := p.run(args, std)
	if p.status >= 0 && (slices.Contains(args, "serve") || slices.Contains(args, "gateway")) { // a daemon's help hides flags
		return status
	}
	p.line = commandLine{}
	_ = kong.Visit(p.Model, func(v kong.Visitable, next kong.Next) error {
		switch v := v.(type) {
		case *kong.Node:
			v.Active = false
		case *kong.Value:
			v.Active, v.Set = false, false
		}
		return next(nil)
	})
	select {
	case parsers <- p:
	default:
	}
	return status
}

// mustShell is shell for what must succeed; it decodes the JSON answer.
func mustShell(t *testing.T, v any, stdin string, args ...string) {
	t.Helper()
	status, out, errOut := shell(t, stdin, args...)
	if status != exitDone {
		t.Fatalf("countersign %s: status %d\n%s%s", strings.Join(args, " "), status, out, errOut)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal([]byte(out), v); err != nil {
		t.Fatalf("countersign %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// sharedService is a service in this process for tests that call it with names of their own: its flags, its URL and its
// data directory.
type sharedService struct {
	flags     []string
	url, data string
	stop      func()
}

var startShared = sync.OnceValues(func() (*sharedService, error) {
	data, err := os.MkdirTemp("", "countersign-shared-")
	if err != nil {
		return nil, err
	}
	s, stop, err := startService(daemon.ServiceConfig{Common: daemon.Common{Storage: daemon.Storage{Dir: data}}})
	if err != nil {
		return nil, err
	}
	shared = &sharedService{[]string{"--api", s.URL(), "--data", data}, s.URL(), data, func() { _ = stop(); _ = os.RemoveAll(data) }}
	return shared, nil
})

// startService runs a service in this process.
func startService(c daemon.ServiceConfig) (s *daemon.Service, stop func() error, err error) {
	c.Listen, c.AllowPrivate, c.AllowHTTP = "127.0.0.1:0", true, true
	if s, err = daemon.NewService(c); err == nil {
		err = s.Open(context.Background())
	}
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return s, func() error { cancel(); return <-ended }, nil
}

var shared *sharedService // once it is started; TestMain stops it

func theService(t *testing.T) *sharedService {
	t.Helper()
	s := must(startShared())
	return s
}

// TestSettings: flags come before the environment, that before the file, and
// the file before the defaults.
func TestSettings(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	file := secretFile(t, "[serve]\nchange-approvals = 12\n")
	// Too many approvals fail the start and are named, which shows what was taken without a server.
	takes := func(want string, args ...string) {
		t.Helper()
		_, _, errOut := shell(t, "", append([]string{"--config", file, "serve", "--data", t.TempDir()}, args...)...)
		if !strings.Contains(errOut, "--change-approvals is "+want) {
			t.Errorf("want %s: %s", want, errOut)
		}
	}
	takes("12")
	t.Setenv("COUNTERSIGN_CHANGE_APPROVALS", "13")
	takes("13")
	takes("14", "--change-approvals", "14")
}
