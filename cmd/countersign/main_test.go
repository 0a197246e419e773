package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"countersign/internal/lab/dbtest"
)

// TestMain puts a copy of the test binary in PATH, which is the program, for tests that need a process to kill.
func TestMain(m *testing.M) { testscript.Main(withPostgres{m}, map[string]func(){"countersign": main}) }

// withPostgres stops the databases that tests have started. It lets four tests run at
// once unless -parallel says otherwise: most of them wait for processes.
type withPostgres struct{ m *testing.M }

func (p withPostgres) Run() int {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", "4"); err != nil {
			panic(err)
		}
	}
	status := dbtest.Run(p.m)
	if shared != nil {
		shared.stop()
	}
	return status
}

// TestScripts runs the scripts of testdata against the real command line.
func TestScripts(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	deposit := must(filepath.Abs("../../testdata/deposit.json"))
	testscript.RunT(oneAtATime{t}, testscript.Params{
		Dir:                 "testdata",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("DEPOSIT", deposit)
			for _, name := range []string{"MERCHANT", "OTHER"} { // where the merchants of a script listen
				addr, err := dbtest.FreePort()
				if err != nil {
					return err
				}
				env.Setenv(name, addr)
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"call":  callHere,
			"mode":  checkMode,
			"lines": checkLines,
		},
	})
}

// oneAtATime runs scripts one after the other, as they set the directory and the environment of this process.
type oneAtATime struct{ *testing.T }

func (oneAtATime) Parallel()       {}
func (t oneAtATime) Verbose() bool { return testing.Verbose() }
func (t oneAtATime) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(oneAtATime{t}) })
}

// callHere is the script command "call countersign ARGS... [<FILE]". It starts no process, as "exec countersign" does.
func callHere(ts *testscript.TestScript, neg bool, args []string) {
	std := streams{in: strings.NewReader(""), out: ts.Stdout(), err: ts.Stderr()}
	if file, is := strings.CutPrefix(args[len(args)-1], "<"); is {
		std.in, args = strings.NewReader(ts.ReadFile(file)), args[:len(args)-1]
	}
	was, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	defer func() { ts.Check(os.Chdir(was)) }()
	for _, name := range []string{"KEY", "API_KEY", "CALLBACK_API_KEY", "TO"} {
		if value := ts.Getenv("COUNTERSIGN_" + name); value != "" {
			ts.Check(os.Setenv("COUNTERSIGN_"+name, value))
			defer os.Unsetenv("COUNTERSIGN_" + name)
		}
	}
	if status := runHere(args[1:], std); (status != exitDone) != neg {
		ts.Fatalf("exit status %d", status)
	}
}

// checkMode is the script command "mode FILE PERMISSIONS", such as -rw-------.
func checkMode(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 || neg {
		ts.Fatalf("usage: mode FILE PERMISSIONS")
	}
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := info.Mode().String(); got != args[1] {
		ts.Fatalf("%s has mode %s, want %s", args[0], got, args[1])
	}
}

// checkLines is the script command "lines FILE N": the file ends its N lines
// properly, or N is 0 and it holds no line end.
func checkLines(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 || neg {
		ts.Fatalf("usage: lines FILE N")
	}
	if n := strings.Count(ts.ReadFile(args[0]), "\n"); fmt.Sprint(n) != args[1] {
		ts.Fatalf("%s has %d lines, want %s", args[0], n, args[1])
	}
}
