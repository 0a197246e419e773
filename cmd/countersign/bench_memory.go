package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// memory measures a service in a process of its own, as it is run, while many
// callbacks wait and then while some of them are delivered.
func (b *bench) memory(ctx context.Context) (err error) {
	const suite = "memory"
	if runtime.GOOS != "linux" {
		fmt.Fprintln(b.std.err, "suite memory reads /proc, which only Linux has: left out")
		return nil
	}
	merchantDir := filepath.Join(b.dir, "memory")
	if err := os.Mkdir(merchantDir, 0o700); err != nil {
		return err
	}
	m, err := b.newMerchant(ctx, merchantDir, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.run(ctx) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
	}()

	p, err := b.startService(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	r := &benchRig{b: b, name: fmt.Sprintf("memory-%x", time.Now().UnixMilli()), api: p.api, merchant: m}
	if err := r.addMerchants(ctx, 1); err != nil {
		return err
	}
	// measured gives the peak and what is in use now.
	measured := func(when string) error {
		peak, now, err := p.memory()
		if err != nil {
			return err
		}
		b.report.add(suite, "peak, "+when, "MB", peak).note("%s MB at that moment", number(now))
		return nil
	}
	if err := measured("nothing waiting"); err != nil {
		return err
	}
	if _, err := p.api.PauseMerchant(ctx, r.ids[0], "callbacks are to wait"); err != nil {
		return err
	}
	b.progress("memory: %d callbacks that wait", b.Pending)
	if err := r.deposits(ctx, "waiting", b.Pending, 1000); err != nil {
		return err
	}
	if err := measured(fmt.Sprintf("%d taken and waiting", b.Pending)); err != nil {
		return err
	}
	if _, err := p.api.ResumeMerchant(ctx, r.ids[0]); err != nil {
		return err
	}
	deliver := time.NewTimer(b.For / 2)
	defer deliver.Stop()
	select {
	case <-deliver.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return measured("while they are delivered")
}

// serviceProcess is a service that runs as "countersign serve".
type serviceProcess struct {
	cmd    *exec.Cmd
	api    *client.Service
	exited chan error
}

var servingLine = regexp.MustCompile(`msg=serving .*?api=(http://\S+)`)

func (b *bench) startService(ctx context.Context) (_ *serviceProcess, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "memory", "service")
	key := benchMasterKey()
	args := []string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--allow-private", "--allow-http", "--log-format", "text", "--log-level", "info"}
	if b.DB != "" {
		args = append(args, "--db", b.DB)
	}
	p := &serviceProcess{cmd: exec.Command(self, args...), exited: make(chan error, 1)}
	// What the environment says of a service is not meant for this one.
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "COUNTERSIGN_DB=") || strings.HasPrefix(v, "COUNTERSIGN_CONFIG=")
	}), "COUNTERSIGN_MASTER_KEY="+hex.EncodeToString(key[:]))
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting serve: %w", err)
	}
	ready := make(chan string, 1)
	var said strings.Builder // until it is ready
	go func() {
		lines := bufio.NewReader(stderr)
		for {
			line, err := lines.ReadString('\n')
			if m := servingLine.FindStringSubmatch(line); m != nil {
				ready <- m[1]
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
	var url string
	select {
	case url = <-ready:
	case err := <-p.exited:
		return nil, fmt.Errorf("serve ended at once: %w\n%s", err, said.String())
	case <-time.After(time.Minute):
		return nil, errors.Join(errors.New("serve does not get ready"), p.stop())
	}
	token, err := b.tokenOf(ctx, dir)
	if err == nil {
		p.api, err = client.NewService(client.Config{URL: url, Token: client.Secret(token)})
	}
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// tokenOf gives an operator's token of the service: the one that it made on its
// first start, or, where its PostgreSQL database had one already, a new one.
func (b *bench) tokenOf(ctx context.Context, dir string) (string, error) {
	if b.DB == "" {
		text, err := os.ReadFile(filepath.Join(dir, tokenFile))
		return strings.TrimSpace(string(text)), err
	}
	d, err := db.Open(ctx, db.Config{URL: b.DB, Keys: benchKeys(), Log: quietLog()}, outbox.End())
	if err != nil {
		return "", err
	}
	token, err := benchToken(ctx, d)
	return token, errors.Join(err, d.Close())
}

// stop ends the process as an operator would.
func (p *serviceProcess) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-p.exited:
		return err
	case <-time.After(time.Minute):
		return errors.Join(errors.New("serve does not stop"), p.cmd.Process.Kill())
	}
}

// memory gives the most that the process ever had resident, and what it has
// now, in MB of a million bytes.
func (p *serviceProcess) memory() (peak, now float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) == 0 || name != "VmHWM" && name != "VmRSS" {
			continue
		}
		kib, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0, 0, err
		}
		if name == "VmHWM" {
			peak = kib * 1024 / 1e6
		} else {
			now = kib * 1024 / 1e6
		}
	}
	return peak, now, nil
}
