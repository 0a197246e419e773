package relay

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"countersign/client"
)

// The environment of a child: the relay as a process of its own, to be killed.
const (
	childFrom  = "COUNTERSIGN_TEST_RELAY_FROM"
	childTo    = "COUNTERSIGN_TEST_RELAY_TO"
	childToken = "COUNTERSIGN_TEST_RELAY_TOKEN"
	childIdle  = "COUNTERSIGN_TEST_RELAY_IDLE" // Config.idle; empty: 0
)

// child runs a relay in place of the tests where the environment asks for it.
func child() bool {
	if os.Getenv(childFrom) == "" {
		return false
	}
	api, err := client.NewService(client.Config{URL: os.Getenv(childTo), Token: client.Secret(os.Getenv(childToken))})
	var r *Relay
	if err == nil {
		idle, _ := time.ParseDuration(os.Getenv(childIdle))
		r, err = New(Config{From: os.Getenv(childFrom), Nodes: []*client.Service{api}, Decisions: true, poll: 200 * time.Millisecond, batch: 20, idle: idle})
	}
	if err == nil {
		err = r.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
	return true
}

// spawn starts a relay as a process, with a Config.idle. kill ends it at once, and waits for its end.
func (s *service) spawn(c *core, idle time.Duration) (p *os.Process, kill func()) {
	s.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFrom+"="+c.url, childTo+"="+s.front.URL, childToken+"="+s.token, childIdle+"="+idle.String())
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	var dead atomic.Bool
	kill = func() {
		if dead.CompareAndSwap(false, true) {
			_ = cmd.Process.Signal(syscall.SIGKILL)
			_ = cmd.Wait()
		}
	}
	s.t.Cleanup(kill)
	return cmd.Process, kill
}

// gate holds the deletion of rows up, by a row of the core's own, and says in reached that one
// waits.
func (c *core) gate(when string, reached chan<- struct{}) (end func()) {
	t := c.t
	t.Helper()
	c.exec(`CREATE TABLE gate (one int); INSERT INTO gate VALUES (1);
CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 FROM gate FOR UPDATE; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER gate AFTER DELETE ON countersign_outbox ` + when + ` FOR EACH ROW EXECUTE FUNCTION gate();`)
	held := c.connect()
	tx, err := held.Begin(context.Background())
	if err == nil {
		_, err = tx.Exec(context.Background(), `SELECT 1 FROM gate FOR UPDATE`)
	}
	ok(t, err)
	watch := c.connect() // a transaction would see one state of pg_stat_activity for ever
	go func() {
		for {
			n := 0
			if watch.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&n) != nil {
				return
			}
			if n > 0 {
				reached <- struct{}{}
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
		until(t, "the backend of the killed relay ends", func() bool {
			return c.one(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`) == "0"
		})
		c.exec(`DROP TRIGGER gate ON countersign_outbox; DROP FUNCTION gate; DROP TABLE gate`)
	}
}
