// Feeds-kafka carries the feeds of a gateway to a topic, by an idempotent producer that waits for
// all replicas in sync. The gateway keeps how far it came, under the name CURSOR, so it may be
// killed and started again anywhere. What was produced without an acknowledgement comes again, in
// its order and with the same header id: readers book each id once. The key is the user, so all
// about one user is in one partition.
//
// Whoever can write to the topic can make deposits up for those who read it: guard it as money.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
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

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Each setting is an environment variable.
var (
	gateway = setting("GATEWAY_URL", "http://127.0.0.1:8091")
	token   = setting("TOKEN_FILE", "app.token") // of the role app: countersign token new --gateway role=app
	cursor  = setting("CURSOR", "kafka")
	brokers = setting("KAFKA_BROKERS", "127.0.0.1:9093") // with commas between them
	topic   = setting("TOPIC", "countersign.feeds")
	plain   = setting("KAFKA_PLAINTEXT", "") // anything: without TLS
	user    = setting("KAFKA_USER", "")      // signs in by SCRAM-SHA-512
	secret  = setting("KAFKA_PASSWORD", "")
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
	var feeds sync.WaitGroup
	for _, feed := range []string{"deposits", "events"} {
		feeds.Go(func() {
			for ctx.Err() == nil {
				err := carry(ctx, feed)
				if ctx.Err() == nil {
					log.Print(feed, ": ", err)
					pause(ctx, 5*time.Second)
				}
			}
		})
	}
	feeds.Wait()
}

// carry produces the entries of a feed after the cursor, until something fails. Then the producer
// ends with it, so that nothing of it arrives behind what comes again.
func carry(ctx context.Context, feed string) error {
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(brokers, ",")...), kgo.ClientID("countersign-feeds"), kgo.DefaultProduceTopic(topic),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordDeliveryTimeout(30 * time.Second)}
	if plain == "" {
		options = append(options, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if user != "" {
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: secret}.AsSha512Mechanism()))
	}
	producer, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer producer.Close()
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
			Seq  int64  `json:"seq"`
			User string `json:"tenantUserId"`
		}
		var records []*kgo.Record
		for _, entry := range part.Items {
			last.User = feed // where an entry has no user
			if err := json.Unmarshal(entry, &last); err != nil {
				return err
			}
			id := fmt.Sprint(feed, "_", last.Seq)
			records = append(records, &kgo.Record{Key: []byte(last.User), Value: entry, Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}}})
		}
		if err := producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return fmt.Errorf("up to %d: %w", last.Seq, err)
		}
		if len(part.Items) > 0 {
			if _, err := call(ctx, "PUT", "/v1/cursors/"+cursor, map[string]int64{feed: last.Seq}); err != nil {
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
