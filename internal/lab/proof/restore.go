package proof

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign"
	"countersign/client"
)

// Copies say where backups are kept and how a PostgreSQL database is backed up and put
// back.
type Copies struct {
	Dir        string
	Dump, Load func(ctx context.Context, url, file string) error
}

// kept is how many backups of an end are kept.
const kept = 4

// Ends are the ends that Backup and Restore take.
func (ch *Chain) Ends() []string {
	if ch.c.Gateway {
		return []string{"service", "gateway"}
	}
	return []string{"service"}
}

// database gives the URL of an end's PostgreSQL database; empty: it has SQLite.
func (ch *Chain) database(end string) string {
	return map[string]string{"service": ch.c.ServiceDB, "gateway": ch.c.GatewayDB}[end]
}

// place are the arguments that name an end's database.
func (ch *Chain) place(end string) []string {
	args := []string{"--data", filepath.Join(ch.dir, end)}
	if end == "gateway" {
		args = append(args, "--gateway")
	}
	if url := ch.database(end); url != "" {
		args = append(args, "--db", url)
	}
	return args
}

// Backup backs up an end while it runs.
func (ch *Chain) Backup(ctx context.Context, end string) error {
	ch.copies++
	file := filepath.Join(ch.c.Copies.Dir, fmt.Sprintf("%s-%d", end, ch.copies))
	var err error
	if url := ch.database(end); url != "" {
		err = ch.c.Copies.Dump(ctx, url, file)
	} else {
		_, err = ch.operate(ctx, append([]string{"backup", "--to", file}, ch.place(end)...)...)
	}
	list := append(ch.backups[end], file)
	if len(list) > kept {
		err = errors.Join(err, os.Remove(list[0]))
		list = list[1:]
	}
	ch.backups[end] = list
	return err
}

// operate runs a command of countersign as an operator does, and gives what it prints.
func (ch *Chain) operate(ctx context.Context, args ...string) (out []byte, err error) {
	var printed, said bytes.Buffer
	cmd := ch.c.Program(args...)
	cmd.Stdout, cmd.Stderr = &printed, &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return printed.Bytes(), fmt.Errorf("countersign %s: %w: %s", strings.Join(args, " "), err, said.String())
	}
	return printed.Bytes(), nil
}

// finding is a line of countersign reconcile.
type finding struct {
	Finding    string `json:"finding"`
	TrackingID string `json:"trackingId"`
	CallBackID string `json:"callBackId"`
	State      string `json:"state"`
	Settled    bool   `json:"settled"`
}

// reconcile runs countersign reconcile and gives its findings. That some are not settled
// is no error.
func (ch *Chain) reconcile(ctx context.Context, args ...string) (list []finding, err error) {
	out, err := ch.operate(ctx, append([]string{"reconcile"}, args...)...)
	if err != nil && !strings.Contains(err.Error(), "differences are not settled") {
		return nil, err
	}
	for line := range bytes.Lines(out) {
		var f finding
		if err := json.Unmarshal(line, &f); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		list = append(list, f)
	}
	return list, nil
}

// Restore puts one of the last backups in the place of an end's database, and does what
// docs/backup.md has an operator do.
func (ch *Chain) Restore(ctx context.Context, end string) error {
	if err := ch.lose(ctx, end); err != nil {
		return err
	}
	return ch.mend(ctx, end)
}

// RestoreAll restores all ends at once, of backups of different times.
func (ch *Chain) RestoreAll(ctx context.Context) error {
	for _, end := range ch.Ends() {
		if err := ch.lose(ctx, end); err != nil {
			return err
		}
	}
	for _, end := range ch.Ends() {
		if err := ch.mend(ctx, end); err != nil {
			return err
		}
	}
	return nil
}

// lose stops an end and puts one of its last backups in the place of its database. What
// acts on the end is stopped too, until its books are read: of the service the core, which
// may hold a permit that it has not booked, of the gateway the application, which may have
// read a page that it has not booked. Neither would be in the books.
func (ch *Chain) lose(ctx context.Context, end string) error {
	if len(ch.backups[end]) == 0 {
		if err := ch.Backup(ctx, end); err != nil {
			return err
		}
		time.Sleep(rand.N(3 * time.Second)) // work that is lost
	}
	file := ch.backups[end][rand.IntN(len(ch.backups[end]))]
	ch.Restores[end]++
	ch.kill(end, true)
	ch.kill(actsOn[end], true)
	if end == "gateway" {
		if err := ch.keepConfirmed(ctx); err != nil {
			return err
		}
	}
	if err := ch.putBack(ctx, end, file); err != nil {
		return fmt.Errorf("restoring the %s: %w", end, err)
	}
	return nil
}

// actsOn gives the peer that acts on what an end gives out.
var actsOn = map[string]string{"service": "core", "gateway": "app"}

// mend reconciles an end that was put back to a backup.
func (ch *Chain) mend(ctx context.Context, end string) error {
	if err := ch.start(ctx, actsOn[end]); err != nil {
		return err
	}
	runs, err := ch.beforeReconciled(ctx, end)
	if err == nil && end == "service" {
		err = ch.mendService(ctx, runs)
	} else if err == nil {
		err = ch.mendGateway(ctx, runs)
	}
	if err != nil {
		return fmt.Errorf("reconciling the %s: %w", end, err)
	}
	return nil
}

// putBack replaces the database of an end that does not run, and begins an epoch.
func (ch *Chain) putBack(ctx context.Context, end, file string) error {
	args := append([]string{"restore"}, ch.place(end)...)
	if url := ch.database(end); url != "" {
		if err := ch.c.Copies.Load(ctx, url, file); err != nil {
			return err
		}
	} else {
		args = append(args, "--from", file, "--replace")
	}
	out, err := ch.operate(ctx, args...)
	if err != nil {
		return err
	}
	var r struct{ Aside string }
	if err := json.Unmarshal(out, &r); err != nil {
		return err
	}
	for _, more := range []string{"", "-wal", "-shm"} {
		if r.Aside != "" {
			_ = os.Remove(r.Aside + more) // the disk is small
		}
	}
	return nil
}

// beforeReconciled has a restored end work for a while in half of the cases, be killed or
// be backed up, before it is reconciled. It reports whether the end runs.
func (ch *Chain) beforeReconciled(ctx context.Context, end string) (runs bool, err error) {
	if rand.IntN(2) == 0 {
		return false, nil
	}
	if err := ch.start(ctx, end); err != nil {
		return false, err
	}
	time.Sleep(rand.N(2 * time.Second))
	switch rand.IntN(4) {
	case 0:
		err = ch.Backup(ctx, end)
	case 1:
		err = ch.Kill(ctx, end)
	}
	if ch.database(end) != "" && rand.IntN(2) == 0 {
		return true, err
	}
	ch.kill(end, true)
	return false, err
}

// mendService reconciles the service, which runs or not, and starts it.
func (ch *Chain) mendService(ctx context.Context, runs bool) error {
	args, err := ch.coreBooks(ctx)
	if err != nil {
		return err
	}
	args = append(args, ch.place("service")...)
	if ch.gateway != nil && ch.runs("gateway") && rand.IntN(2) == 0 {
		args = append(args, ch.gatewayFlags()...)
	} else {
		booked, err := ch.credits(ctx)
		if err != nil {
			return err
		}
		args = append(args, "--booked", booked)
	}
	looked, err := ch.reconcile(ctx, args...)
	if err != nil {
		return err
	}
	settled, err := ch.reconcile(ctx, append(args, "--settle")...)
	if err != nil {
		return err
	}
	if !runs {
		if err := ch.start(ctx, "service"); err != nil {
			return err
		}
	}
	again := map[string]string{} // what the core adds again, by id: its kind
	for _, f := range append(looked, settled...) {
		switch {
		case f.Finding != "added_unknown" && f.Finding != "booked_not_told" && f.Finding != "confirmed_unknown":
		case f.CallBackID != "":
			again[f.CallBackID] = "withdrawal"
		default:
			again[f.TrackingID] = "deposit"
		}
	}
	for _, f := range settled {
		ch.Found[f.Finding]++
	}
	steps := []func() error{
		func() error { return ch.nextDecisions(ctx) },
		func() error { return ch.addAgain(ctx, again) },
		func() error { return ch.reportAgain(ctx) },
	}
	rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// addAgain inserts the rows that the service lost, as the core does.
func (ch *Chain) addAgain(ctx context.Context, lost map[string]string) error {
	for id, kind := range lost {
		text, err := json.Marshal(bodyOf(kind, id))
		if err != nil {
			return err
		}
		if _, err := ch.core.ExecContext(ctx, `INSERT INTO countersign_outbox (kind, body) VALUES ($1, $2)`, kind, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// reportAgain has the core report the outcomes that the service does not know.
func (ch *Chain) reportAgain(ctx context.Context) error {
	for w, err := range ch.api.AllWithdrawals(ctx, client.WithdrawalFilter{State: client.WithdrawalReleased}) {
		if err == nil {
			_, err = ch.core.ExecContext(ctx, `UPDATE core_executions SET reported = false WHERE call_back_id = $1`, w.CallBackID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nextDecisions lets the relay write decisions of the service's new epochs.
func (ch *Chain) nextDecisions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		_, err := ch.operate(ctx, "relay", "cursor", "--next-epoch", "--from", ch.c.Core, "--to", "http://"+ch.addr["service"], "--token", "@"+ch.tokenFile("service"))
		switch {
		case err == nil:
			continue // there may be another
		case strings.Contains(err.Error(), "has no epoch behind"):
			return nil
		case strings.Contains(err.Error(), "let a relay run"), strings.Contains(err.Error(), "was moved meanwhile"):
			if err := ch.decideContradiction(ctx); err != nil {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		default:
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// decideContradiction does what docs/relay.md has a person do where the relay stops at a
// withdrawal that was decided otherwise before: a restored service asked again, and the
// gateway, which was restored too, refused what it was told of as executed. What was
// executed stays as it was, and the new decision is passed; otherwise that one holds.
func (ch *Chain) decideContradiction(ctx context.Context) error {
	var after int64
	if err := ch.core.QueryRowContext(ctx, `SELECT decisions FROM countersign_relay`).Scan(&after); err != nil {
		return err
	}
	part, err := ch.api.Decisions(ctx, client.FeedOptions{After: after, Limit: 1})
	if err != nil || len(part.Decisions) == 0 {
		return nil // of another epoch, or nothing is left
	}
	d := part.Decisions[0]
	var executed bool
	err = ch.core.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM core_executions WHERE call_back_id = $1)
		FROM countersign_decisions WHERE call_back_id = $1 AND decision <> $2`, d.Withdrawal.CallBackID, string(d.Withdrawal.Decision)).Scan(&executed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	ch.Found["contradiction"]++
	if executed {
		_, err = ch.core.ExecContext(ctx, `UPDATE countersign_relay SET decisions = $2 WHERE decisions = $1`, after, d.Seq)
	} else {
		_, err = ch.core.ExecContext(ctx, `DELETE FROM countersign_decisions WHERE call_back_id = $1 AND decision <> $2`, d.Withdrawal.CallBackID, string(d.Withdrawal.Decision))
	}
	return err
}

// mendGateway is mendService of the gateway. The service runs and is reconciled.
func (ch *Chain) mendGateway(ctx context.Context, runs bool) error {
	booked, err := ch.credits(ctx)
	if err != nil {
		return err
	}
	args := append(ch.place("gateway"), "--booked", booked)
	if _, err := ch.reconcile(ctx, args...); err != nil {
		return err
	}
	list, err := ch.reconcile(ctx, append(args, "--settle")...)
	if err == nil && !runs {
		err = ch.start(ctx, "gateway")
	}
	if err != nil {
		return err
	}
	more, err := ch.reconcile(ctx, append(append(ch.serviceFlags(), ch.gatewayFlags()...), "--settle")...)
	for _, f := range append(list, more...) {
		ch.Found[f.Finding]++
	}
	return err
}

// keepConfirmed notes the orders that the gateway has confirmed: a backup may not know.
func (ch *Chain) keepConfirmed(ctx context.Context) error {
	driver, dsn := "sqlite", filepath.Join(ch.dir, "gateway", "countersign.db")
	if url := ch.database("gateway"); url != "" {
		driver, dsn = "pgx", url
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	list, err := column(ctx, db, `SELECT call_back_id, '' FROM orders WHERE confirmed > 0`)
	for _, o := range list {
		ch.confirmedBefore[o[0]] = true
	}
	return err
}

func (ch *Chain) tokenFile(end string) string { return filepath.Join(ch.dir, end, "admin.token") }

func (ch *Chain) serviceFlags() []string {
	return []string{"--service", "http://" + ch.addr["service"], "--service-token", "@" + ch.tokenFile("service"), "--merchant", "shop"}
}

func (ch *Chain) gatewayFlags() []string {
	return []string{"--gateway", "http://" + ch.addr["gateway api"], "--gateway-token", "@" + ch.tokenFile("gateway"), "--merchant", "shop"}
}

// books writes a file of lines.
func (ch *Chain) books(name string, lines []any) (path string, err error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			return "", err
		}
	}
	path = filepath.Join(ch.c.Copies.Dir, name)
	return path, os.WriteFile(path, b.Bytes(), 0o600)
}

// credits writes what the merchant has credited.
func (ch *Chain) credits(ctx context.Context) (path string, err error) {
	list, err := column(ctx, ch.store, `SELECT tracking_id, amount FROM credits`)
	if err != nil {
		return "", err
	}
	var lines []any
	for _, c := range list {
		line := bodyOf("deposit", c[0])
		line["amount"] = c[1]
		lines = append(lines, line)
	}
	if ch.gateway != nil {
		list, err := ch.orders(ctx)
		if err != nil {
			return "", err
		}
		lines = append(lines, list...)
	}
	return ch.books("booked", lines)
}

// orders is what the application says became of its orders.
func (ch *Chain) orders(ctx context.Context) (lines []any, err error) {
	executions, err := column(ctx, ch.core, `SELECT call_back_id, '' FROM core_executions`)
	if err != nil {
		return nil, err
	}
	state := map[string]string{}
	for id := range ch.confirmedBefore {
		state[id] = "confirmed"
	}
	for id, where := range ch.ended {
		if where != "core" {
			state[id] = where
		}
	}
	for _, x := range executions {
		state[x[0]] = "executed"
	}
	for n := 1; n <= orders; n++ {
		id := fmt.Sprint("W", n)
		if !ordered(id) {
			continue
		}
		d := orderOf(id)
		line := map[string]any{"merchant": "shop", "callBackId": id, "tenantUserId": tenant, "state": cmp.Or(state[id], "open"),
			"address": d.Address, "chainName": d.ChainName, "symbol": d.Symbol, "amount": d.Amount}
		if state[id] == "executed" {
			line["txId"] = "tx-" + id
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// End ends a withdrawal at random: the core or the application takes it back, or a person
// declines it. Nothing may be decided against that, whatever is restored.
func (ch *Chain) End(ctx context.Context) error {
	if ch.gateway == nil || rand.IntN(2) == 0 {
		page, err := ch.api.Withdrawals(ctx, client.WithdrawalFilter{State: client.WithdrawalAwaiting}, client.PageOptions{Limit: 20})
		if err != nil || len(page.Withdrawals) == 0 {
			return nil // nothing awaits, or the service is away
		}
		w := page.Withdrawals[rand.IntN(len(page.Withdrawals))]
		return ch.end(ctx, w.CallBackID, "core", func() error {
			_, err := ch.api.CancelWithdrawal(ctx, w.ID)
			return err
		})
	}
	id, where, end := fmt.Sprint("W", 1+rand.IntN(orders)), "cancelled", ch.gateway.CancelOrder
	if rand.IntN(2) == 0 {
		where, end = "declined", ch.gateway.DeclineOrder
	}
	return ch.end(ctx, id, where, func() error {
		_, err := end(ctx, id, "chaos")
		return err
	})
}

// end repeats do until it says whether it is done.
func (ch *Chain) end(ctx context.Context, id, where string, do func() error) (err error) {
	for range 300 {
		switch err = do(); {
		case err == nil:
			ch.ended[id] = where
			ch.Ended[where]++
			return nil
		case errors.Is(err, client.ErrConflict), errors.Is(err, client.ErrNotFound):
			return nil // it was decided
		}
		time.Sleep(200 * time.Millisecond)
	}
	return err
}

// coreBooks writes what the core has added and executed, and gives the flags that name
// the files.
func (ch *Chain) coreBooks(ctx context.Context) (flags []string, err error) {
	executions, err := column(ctx, ch.core, `SELECT call_back_id, claim || ' ' || permit FROM core_executions`)
	if err != nil {
		return nil, err
	}
	var executed []any
	for _, x := range executions {
		claim, permit, _ := strings.Cut(x[1], " ")
		d := orderOf(x[0])
		executed = append(executed, map[string]any{"merchant": "shop", "callBackId": x[0], "claim": claim, "permit": permit, "tenantUserId": tenant,
			"address": d.Address, "chainName": d.ChainName, "symbol": d.Symbol, "amount": d.Amount})
	}
	booked, err := column(ctx, ch.core, `SELECT w.call_back_id, '' FROM core_withdrawals w WHERE NOT EXISTS (SELECT 1 FROM core_executions e WHERE e.call_back_id = w.call_back_id)`)
	if err != nil {
		return nil, err
	}
	for _, w := range booked {
		state := "open"
		if ch.ended[w[0]] == "core" {
			state = "cancelled"
		}
		d := orderOf(w[0])
		executed = append(executed, map[string]any{"merchant": "shop", "callBackId": w[0], "tenantUserId": tenant, "state": state,
			"address": d.Address, "chainName": d.ChainName, "symbol": d.Symbol, "amount": d.Amount})
	}
	added, err := ch.coreAdded(ctx)
	if err != nil {
		return nil, err
	}
	file, err := ch.books("executed", executed)
	return []string{"--executed", file, "--added", added}, err
}

func (ch *Chain) coreAdded(ctx context.Context) (path string, err error) {
	deposits, err := column(ctx, ch.core, `SELECT tracking_id, amount FROM core_deposits`)
	if err != nil {
		return "", err
	}
	withdrawals, err := column(ctx, ch.core, `SELECT call_back_id, '' FROM core_withdrawals`)
	if err != nil {
		return "", err
	}
	var lines []any
	for _, d := range deposits {
		lines = append(lines, map[string]string{"merchant": "shop", "trackingId": d[0], "symbol": "USDT", "amount": d[1]})
	}
	for _, w := range withdrawals {
		lines = append(lines, map[string]string{"merchant": "shop", "callBackId": w[0]})
	}
	return ch.books("added", lines)
}

// comparePermits asks for each permit again: the core must have the only one.
func (ch *Chain) comparePermits(ctx context.Context, r *Result) error {
	list, err := column(ctx, ch.core, `SELECT call_back_id, claim || ' ' || permit FROM core_executions`)
	if err != nil {
		return err
	}
	ids := map[string]string{}
	for w, err := range ch.api.AllWithdrawals(ctx, client.WithdrawalFilter{}) {
		if err != nil {
			return err
		}
		ids[w.CallBackID] = w.ID
		if ch.ended[w.CallBackID] == "" && w.State != client.WithdrawalExecuted && w.Decision == countersign.DecisionConfirmed {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s is %s at the service", w.CallBackID, w.State))
		}
	}
	for _, x := range list {
		if where := ch.ended[x[0]]; where != "" {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s was executed, and had ended before: %s", x[0], where))
		}
		claim, permit, _ := strings.Cut(x[1], " ")
		p, err := ch.api.ReleaseWithdrawal(ctx, ids[x[0]], claim)
		if err != nil || p.Permit.Reveal() != permit {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s: %s has executed with another permit than the service gives: %v", x[0], claim, err))
		}
	}
	return nil
}

// compareByCommand has countersign reconcile compare all sides, which finds nothing but what
// a restore of the gateway left.
func (ch *Chain) compareByCommand(ctx context.Context, r *Result) error {
	added, err := ch.coreAdded(ctx)
	if err != nil {
		return err
	}
	booked, err := ch.credits(ctx)
	if err != nil {
		return err
	}
	sides := [][]string{{"--booked", booked, "--added", added}}
	if ch.gateway != nil {
		sides = append(sides, ch.gatewayFlags())
	}
	for _, side := range sides {
		list, err := ch.reconcile(ctx, append(ch.serviceFlags(), side...)...)
		if err != nil {
			return err
		}
		for _, f := range list {
			switch {
			case f.Finding == "executed_not_confirmed" && ch.confirmedBefore[f.CallBackID]: // told in the end, as documented
			case f.Finding == "told_not_counting": // it was booked before the restore; the ledgers say so
			default:
				r.Wrong = append(r.Wrong, fmt.Sprintf("reconcile: %+v", f))
			}
		}
	}
	return nil
}
