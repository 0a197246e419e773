// Feeds-nats carries the feeds of a gateway to a JetStream stream: each entry once the one before
// it in its feed is acknowledged. The gateway keeps how far it came, under the name CURSOR, so it
// may be killed and started again anywhere. What was published without an acknowledgement comes
// again with the same Nats-Msg-Id, which the stream drops within its duplicate window.
//
// Whoever can write to the subject can make deposits up for those who read it: guard it as money.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Each setting is an environment variable.
var (
	gateway = setting("GATEWAY_URL", "http://127.0.0.1:8091")
	token   = setting("TOKEN_FILE", "app.token") // of the role app: countersign token new --gateway role=app
	cursor  = setting("CURSOR", "nats")
	server  = setting("NATS_URL", "tls://127.0.0.1:4222")
	subject = setting("SUBJECT", "countersign.feeds") // .deposits and .events follow
	creds   = setting("NATS_CREDS", "")               // a credentials file
)

func setting(name, otherwise string) string {
	if text := os.Getenv(name); text != "" {
		return text
	}
	return otherwise
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	options := []nats.Option{nats.Name("countersign feeds"), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true)}
	if creds != "" {
		options = append(options, nats.UserCredentials(creds))
	}
	conn, err := nats.Connect(server, options...)
	if err != nil {
		log.Fatal("connecting to NATS: ", err)
	}
	defer conn.Close()
	stream, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	var feeds sync.WaitGroup
	for _, feed := range []string{"deposits", "events"} {
		feeds.Go(func() {
			for ctx.Err() == nil {
				err := carry(ctx, feed, func(seq int64, entry []byte) error {
					msg := &nats.Msg{Subject: subject + "." + feed, Data: entry}
					_, err := stream.PublishMsg(ctx, msg, jetstream.WithMsgID(fmt.Sprint(feed, "_", seq)))
					return err
				})
				if ctx.Err() == nil {
					log.Print(feed, ": ", err)
					pause(ctx, 5*time.Second)
				}
			}
		})
	}
	feeds.Wait()
}

// carry publishes the entries of a feed after the cursor, until something fails.
func carry(ctx context.Context, feed string, publish func(seq int64, entry []byte) error) error {
	for {
		answer, err := call(ctx, "GET", "/v1/"+feed+"?limit=100&wait=30s&reader="+cursor, nil)
		if err != nil {
			return err
		}
		var part struct{ Items []json.RawMessage }
		if err := json.Unmarshal(answer, &part); err != nil {
			return err
		}
		var last struct {
			Seq int64 `json:"seq"`
		}
		for _, entry := range part.Items {
			if err = json.Unmarshal(entry, &last); err != nil {
				return err
			}
			if err = publish(last.Seq, entry); err != nil {
				return fmt.Errorf("%d: %w", last.Seq, err)
			}
		}
		if len(part.Items) > 0 {
			if _, err = call(ctx, "PUT", "/v1/cursors/"+cursor, map[string]int64{feed: last.Seq}); err != nil {
				return err
			}
		}
	}
}

// call asks the gateway.
func call(ctx context.Context, method, path string, body any) ([]byte, error) {
	bearer, err := os.ReadFile(token)
	if err != nil {
		return nil, err
	}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, gateway+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(bearer)))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return answer, err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
