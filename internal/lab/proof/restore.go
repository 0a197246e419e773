package proof

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// database returns the URL of an end's PostgreSQL database; empty: it has SQLite.
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
	There      string `json:"there"`
	Settled    bool   `json:"settled"`
}

// kind says what a finding is, in a count.
func (f finding) kind() string {
	if f.Finding == "end_differs" {
		return fmt.Sprintf("end_differs: %s, %s there", f.State, f.There)
	}
	return f.Finding
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
func (ch *Chain) Restore(ctx context.Context, end string) error { return ch.restore(ctx, end) }

// RestoreAll restores all ends at once, of backups of different times.
func (ch *Chain) RestoreAll(ctx context.Context) error { return ch.restore(ctx, ch.Ends()...) }

func (ch *Chain) restore(ctx context.Context, ends ...string) error {
	for _, end := range ends {
		if err := ch.lose(ctx, end); err != nil {
			return err
		}
	}
	for _, end := range ends {
		if err := ch.start(ctx, actsOn[end]); err != nil {
			return err
		}
	}
	runs, err := ch.beforeReconciled(ctx, ends)
	for _, end := range ends {
		if err == nil && end == "service" {
			err = ch.mendService(ctx, runs[end], slices.Contains(ends, "gateway"))
		} else if err == nil {
			err = ch.mendGateway(ctx, runs[end])
		}
		if err != nil {
			return fmt.Errorf("reconciling the %s: %w", end, err)
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
		time.Sleep(ch.upTo(3 * time.Second)) // work that is lost
	}
	file := ch.backups[end][ch.rand.IntN(len(ch.backups[end]))]
	ch.Restores[end]++
	ch.kill(end, true)
	ch.kill(actsOn[end], true)
	err := ch.note(ctx, end)
	if err == nil {
		err = ch.putBack(ctx, end, file)
	}
	if err == nil {
		ch.before[end], err = ch.look(ctx, end)
	}
	if err != nil {
		return fmt.Errorf("restoring the %s: %w", end, err)
	}
	return nil
}

// actsOn gives the peer that acts on what an end gives out.
var actsOn = map[string]string{"service": "core", "gateway": "app"}

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

// beforeReconciled has restored ends work for a while in half of the cases, together if both
// were, be killed or be backed up, before they are reconciled. Nothing of before may be
// decided meanwhile. It reports which ends run.
func (ch *Chain) beforeReconciled(ctx context.Context, ends []string) (runs map[string]bool, err error) {
	runs = map[string]bool{}
	if ch.rand.IntN(2) == 0 {
		return runs, nil
	}
	for _, end := range ends {
		if err := ch.start(ctx, end); err != nil {
			return nil, err
		}
	}
	for _, end := range ends {
		if ch.rand.IntN(2) == 0 {
			ch.try(ctx, end)
		}
	}
	time.Sleep(ch.upTo(3 * time.Second))
	for _, end := range ends {
		switch ch.rand.IntN(4) {
		case 0:
			err = ch.Backup(ctx, end)
		case 1:
			err = ch.Kill(ctx, end)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, end := range ends {
		if runs[end] = ch.database(end) != "" && ch.rand.IntN(2) == 0; !runs[end] {
			ch.kill(end, true)
		}
	}
	for _, end := range ends {
		if err := ch.watch(ctx, end); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// mendService reconciles the service, which runs or not, and starts it. With both the gateway
// was restored too, and comes after it.
func (ch *Chain) mendService(ctx context.Context, runs, both bool) error {
	args, err := ch.coreBooks(ctx)
	if err != nil {
		return err
	}
	args = append(args, ch.place("service")...)
	if ch.gateway != nil && !both && ch.rand.IntN(2) == 0 {
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
		ch.Found[f.kind()]++
	}
	steps := []func() error{
		func() error { return ch.nextDecisions(ctx) },
		func() error { return ch.addAgain(ctx, again) },
		func() error { return ch.reportAgain(ctx) },
	}
	ch.rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
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
	var earlier string
	err = ch.core.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM core_executions WHERE call_back_id = $1), decision
		FROM countersign_decisions WHERE call_back_id = $1 AND decision <> $2`, d.Withdrawal.CallBackID, string(d.Withdrawal.Decision)).Scan(&executed, &earlier)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	ch.Found[fmt.Sprintf("contradiction: %s, then %s", earlier, d.Withdrawal.Decision)]++
	if d.Withdrawal.Decision == countersign.DecisionConfirmed {
		ch.truth.wrong = append(ch.truth.wrong, fmt.Sprintf("%s was %s, as the core was told, and is confirmed", d.Withdrawal.CallBackID, earlier))
	}
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
	lost, err := ch.reconcile(ctx, args...)
	if err != nil {
		return err
	}
	list, err := ch.reconcile(ctx, append(args, "--settle")...)
	if err == nil && !runs {
		err = ch.start(ctx, "gateway")
	}
	if err == nil {
		err = ch.orderAgain(ctx, lost)
	}
	if err != nil {
		return err
	}
	more, err := ch.reconcile(ctx, append(append(ch.serviceFlags(), ch.gatewayFlags()...), "--settle")...)
	for _, f := range append(list, more...) {
		ch.Found[f.kind()]++
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

// orders is what the application says became of its orders, and of what it had not ordered.
func (ch *Chain) orders(ctx context.Context) (lines []any, err error) {
	executions, err := column(ctx, ch.core, `SELECT call_back_id, '' FROM core_executions`)
	if err != nil {
		return nil, err
	}
	executed := map[string]bool{}
	for _, x := range executions {
		executed[x[0]] = true
	}
	ids := maps.Clone(ch.truth.ordered)
	for id := range ch.truth.orders {
		ids[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		state := ch.stateOf(id)
		if state.Undecided() {
			state = client.OrderOpen // nothing became of it, whatever the gateway waits for
		}
		line := map[string]any{"merchant": "shop", "callBackId": id, "state": state}
		if executed[id] {
			line["state"], line["txId"] = client.OrderExecuted, "tx-"+id
		}
		if d := orderOf(id); ch.truth.ordered[id] {
			line["tenantUserId"], line["address"], line["chainName"], line["symbol"], line["amount"] = tenantOf(id), d.Address, d.ChainName, d.Symbol, d.Amount
		}
		if at := ch.truth.orders[id].confirmed; at != 0 && !final(state) && ch.rand.IntN(2) == 0 {
			line["confirmed"] = client.Time(at)
		}
		lines = append(lines, line)
	}
	return lines, nil
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
		executed = append(executed, map[string]any{"merchant": "shop", "callBackId": x[0], "claim": claim, "permit": permit, "tenantUserId": tenantOf(x[0]),
			"address": d.Address, "chainName": d.ChainName, "symbol": d.Symbol, "amount": d.Amount})
	}
	booked, err := column(ctx, ch.core, `SELECT w.call_back_id, '' FROM core_withdrawals w WHERE NOT EXISTS (SELECT 1 FROM core_executions e WHERE e.call_back_id = w.call_back_id)`)
	if err != nil {
		return nil, err
	}
	decisions, err := column(ctx, ch.core, `SELECT call_back_id, decision FROM countersign_decisions WHERE decision <> 'confirmed'`)
	if err != nil {
		return nil, err
	}
	decided := map[string]string{}
	for _, d := range decisions {
		decided[d[0]] = d[1]
	}
	for _, w := range booked {
		state := cmp.Or(decided[w[0]], "open")
		switch ch.truth.ended[w[0]] {
		case "core":
			state = "cancelled"
		case "blocked":
			state = "blocked"
		}
		d := orderOf(w[0])
		executed = append(executed, map[string]any{"merchant": "shop", "callBackId": w[0], "tenantUserId": tenantOf(w[0]), "state": state,
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
	list, err := column(ctx, ch.store, `SELECT tracking_id, '' FROM credits`)
	if err != nil {
		return err
	}
	booksHave := map[string]bool{}
	for _, c := range list {
		booksHave[c[0]] = true
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
			case f.Finding == "executed_not_confirmed" && ch.truth.orders[f.CallBackID].confirmed != 0: // told in the end, as documented
			case f.Finding == "told_not_booked" && f.TrackingID != "" && booksHave[twin(f.TrackingID)]: // its transfer is booked
			case f.Finding == "told_not_counting": // it was booked before the restore; the ledgers say so
			default:
				r.Wrong = append(r.Wrong, fmt.Sprintf("reconcile: %+v", f))
			}
		}
	}
	return nil
}
