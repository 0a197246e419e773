package bench

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// process is a daemon of the program in a process of its own.
type process struct {
	name   string
	cmd    *exec.Cmd
	exited chan error
}

// startProcess starts a daemon, with the bench's database and master key, and waits
// for the line of its log that ready matches. It gives the match's first group. more
// is added to the environment.
func (b *Bench) startProcess(ready *regexp.Regexp, args []string, more ...string) (_ *process, found string, err error) {
	key := masterKey()
	p := &process{name: args[0], exited: make(chan error, 1)}
	args = append(args, "--log-format", "text", "--log-level", "info")
	if b.DB != "" {
		args = append(args, "--db", b.DB)
	}
	p.cmd = exec.Command(b.Binary, args...)
	// A database or settings in the environment are meant for another service.
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "COUNTERSIGN_DB=") || strings.HasPrefix(v, "COUNTERSIGN_CONFIG=")
	}), "COUNTERSIGN_MASTER_KEY="+hex.EncodeToString(key[:]))
	p.cmd.Env = append(p.cmd.Env, more...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, "", err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("starting %s: %w", p.name, err)
	}
	matched := make(chan string, 1)
	var said strings.Builder // its log until it is ready; read once it has exited
	go func() {
		lines := bufio.NewReader(stderr)
		for {
			line, err := lines.ReadString('\n')
			if m := ready.FindStringSubmatch(line); m != nil {
				matched <- m[1]
				_, _ = io.Copy(io.Discard, lines)
				break
			}
			said.WriteString(line)
			if err != nil {
				break
			}
		}
		p.exited <- p.cmd.Wait()
	}()
	select {
	case found = <-matched:
		return p, found, nil
	case err := <-p.exited:
		return nil, "", fmt.Errorf("%s ended at once: %w\n%s", p.name, err, said.String())
	case <-time.After(time.Minute):
		return nil, "", errors.Join(fmt.Errorf("%s did not become ready", p.name), p.stop())
	}
}

// stop ends the process as an operator would, and waits for it.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-p.exited:
		return err
	case <-time.After(time.Minute):
		return errors.Join(fmt.Errorf("%s did not stop", p.name), p.cmd.Process.Kill())
	}
}
