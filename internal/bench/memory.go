package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// memory measures the memory of "countersign serve" in a process of its own, while
// many callbacks wait and then while some of them are delivered.
func (b *Bench) memory(ctx context.Context) (err error) {
	const suite = "memory"
	dir, err := b.apart(suite)
	if err != nil || dir == "" {
		return err
	}
	m, err := b.newMerchantEnd(ctx, dir, nil)
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

	p, err := b.startService(ctx, filepath.Join(dir, "service"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	r := &rig{b: b, name: fmt.Sprintf("memory-%x", time.Now().UnixMilli()), api: p.api, merchant: m}
	if err := r.addMerchants(ctx, 1); err != nil {
		return err
	}
	// measured keeps the most that the process has used so far, and what it uses now.
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
	if err := r.allDeposits(ctx, "waiting", b.Pending); err != nil {
		return err
	}
	if err := measured(fmt.Sprintf("%d taken and waiting", b.Pending)); err != nil {
		return err
	}
	if _, err := p.api.ResumeMerchant(ctx, r.ids[0], client.Resume{}); err != nil {
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
	*process
	api *client.Service
}

// servingLine is the line of the log that says where the API is.
var servingLine = regexp.MustCompile(`msg=serving .*?api=(http://\S+)`)

// startService starts "serve" and waits until it answers.
func (b *Bench) startService(ctx context.Context, dir string) (_ *serviceProcess, err error) {
	args := []string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--allow-private", "--allow-http"}
	p := &serviceProcess{}
	var url string
	if p.process, url, err = b.startProcess(servingLine, args); err != nil {
		return nil, err
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

// tokenOf gives an admin's token of the service: the one that it made on its
// first start, or a new one where its PostgreSQL database had one already.
func (b *Bench) tokenOf(ctx context.Context, dir string) (string, error) {
	if b.DB == "" {
		text, err := os.ReadFile(filepath.Join(dir, daemon.TokenFile))
		return strings.TrimSpace(string(text)), err
	}
	d, err := db.Open(ctx, db.Config{URL: b.DB, Keys: keys()}, outbox.End())
	if err != nil {
		return "", err
	}
	token, err := newToken(ctx, d)
	return token, errors.Join(err, d.Close())
}

// memory gives the most memory that the process has had resident, and what it has
// now, in megabytes.
func (p *process) memory() (peak, now float64, err error) {
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

// apart makes the directory of a suite that measures the program in a process of its
// own. An empty one means that the suite is left out here.
func (b *Bench) apart(suite string) (dir string, err error) {
	if runtime.GOOS != "linux" {
		b.report.LeftOut = suite + ", which reads /proc, and only Linux has that"
		return "", nil
	}
	if b.Binary == "" {
		return "", errors.New("the program's file is not known")
	}
	return b.newDir(suite)
}
