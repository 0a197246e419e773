package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

const (
	gatewayCallers = 64
	// gatewayRound is how many deposits a round posts. They are sealed before it begins.
	gatewayRound = 4000
)

// callbacksLine is the line of the log that says where a gateway takes callbacks.
var callbacksLine = regexp.MustCompile(`msg=serving .*?callbacks=(http://\S+)`)

// gateway measures how many callbacks one core of a gateway takes: "countersign gateway"
// is a process that runs on one core at a time, and the callers, in this process, have the
// other cores.
func (b *Bench) gateway(ctx context.Context) (err error) {
	const suite = "gateway"
	if runtime.GOOS != "linux" {
		b.report.LeftOut = suite + ", which reads /proc, and only Linux has that"
		return nil
	}
	if b.Binary == "" {
		return errors.New("Config.Binary is missing")
	}
	dir, err := b.newDir(suite)
	if err != nil {
		return err
	}
	p, url, err := b.startGateway(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	n, times := gatewayRound, min(5, b.Rounds)
	if b.Quick {
		n = 200
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: gatewayCallers, DisableCompression: true}}
	defer client.CloseIdleConnections()
	var rates, gateways, callers []float64
	for round := range times + 1 { // the first warms up
		b.progress("gateway: round %d of %d, %d deposits", round, times, n)
		sealed, err := b.sealedDeposits(ctx, fmt.Sprint("gateway-", time.Now().UnixNano()), n)
		if err != nil {
			return err
		}
		before, err := processorTimeOf(p.cmd.Process.Pid)
		if err != nil {
			return err
		}
		start, ours := time.Now(), processorTime()
		err = inParallel(gatewayCallers, n, func(i int) error { return b.postTo(ctx, client, url, sealed[i]) })
		took, spent := time.Since(start), processorTime()-ours
		if err != nil {
			return err
		}
		after, err := processorTimeOf(p.cmd.Process.Pid)
		if err != nil {
			return err
		}
		if round > 0 {
			rates = append(rates, float64(n)/took.Seconds())
			gateways = append(gateways, us(after-before)/float64(n))
			callers = append(callers, us(spent)/float64(n))
		}
	}
	b.report.addRounds(suite, "deposits taken by a gateway on one core", "deposits/s", rates).note("%d callers, on the other cores", gatewayCallers)
	b.report.addRounds(suite, "processor, the gateway", "µs a deposit", gateways)
	b.report.addRounds(suite, "processor, the callers", "µs a deposit", callers)
	return nil
}

// processorTimeOf is the processor time that a process has used.
func processorTimeOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// proc(5): after the command, in brackets, comes field 3. utime and stime are 14 and 15,
	// in ticks of 10 ms.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat is not what proc(5) says", pid)
	}
	user, err := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err, err2)
}

// startGateway starts a gateway whose service is this bench.
func (b *Bench) startGateway(dir string) (_ *process, url string, err error) {
	key := filepath.Join(dir, "service.pem")
	if err := os.WriteFile(key, b.load.pair.Public().PublicPEM(), 0o600); err != nil {
		return nil, "", err
	}
	secrets := map[string]string{"api.key": b.load.apiKey.Reveal(), "callback.key": b.load.callbackKey.Reveal()}
	for name, text := range secrets {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, "", err
		}
	}
	args := []string{"gateway", "--data", filepath.Join(dir, "gateway"), "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0",
		"--service-key", key, "--api-key", "@" + filepath.Join(dir, "api.key"), "--callback-api-key", "@" + filepath.Join(dir, "callback.key")}
	p, url, err := b.startProcess(callbacksLine, args, "GOMAXPROCS=1")
	return p, url + merchant.DefaultNotifyPath, err
}

// sealedDeposits are the bodies of n deposits of a set, as the service posts them.
func (b *Bench) sealedDeposits(ctx context.Context, set string, n int) ([][]byte, error) {
	bodies := make([][]byte, n)
	return bodies, inParallel(runtime.GOMAXPROCS(0), n, func(i int) error {
		payload, err := b.load.payload(b.load.deposit("gateway", set, i))
		if err != nil {
			return err
		}
		plain, _, err := countersign.Bind(payload, [6]byte{byte(i), byte(i >> 8)})
		if err != nil {
			return err
		}
		bodies[i], err = envelope.Seal(b.load.pair, envelope.PKCS1v15, plain)
		return errors.Join(err, ctx.Err())
	})
}

// postTo posts one body and wants it accepted.
func (b *Bench) postTo(ctx context.Context, client *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-API-KEY", b.load.callbackKey.Reveal())
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, countersign.MaxMessage))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	answer, err := countersign.ParseResponse(text)
	if err == nil && answer.ErrCode != countersign.CodeAccepted {
		err = errors.New("a deposit got errCode " + strconv.Itoa(int(answer.ErrCode)))
	}
	return err
}
