package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// toKafka produces to a topic: idempotent, acknowledged by all replicas that are in sync.
type toKafka struct {
	d     *destination
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	agent string

	client *kgo.Client // nil: none yet, or it failed
}

// Send is used by one goroutine at a time.
func (k *toKafka) Send(ctx context.Context, list []message) (int, error) {
	if k.client == nil {
		if err := k.open(ctx); err != nil {
			return 0, fmt.Errorf("connecting to Kafka: %w", err)
		}
	}
	records := make([]*kgo.Record, len(list))
	for i, m := range list {
		records[i] = &kgo.Record{Topic: k.d.name, Key: []byte(m.key), Value: m.body}
		for _, h := range m.headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
		}
	}
	ended := make(chan struct{})
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		select {
		case <-ended:
		case <-ctx.Done():
			k.client.Close() // what is under way would go on otherwise, behind what is sent again
		}
	}()
	results := k.client.ProduceSync(ctx, records...)
	close(ended)
	<-closed
	// In the order in which they were given: the results come in that of the acknowledgements.
	failed := map[*kgo.Record]error{}
	for _, r := range results {
		if r.Err != nil {
			failed[r.Record] = r.Err
		}
	}
	for i, r := range records {
		if err := failed[r]; err != nil {
			k.Close()
			if ctx.Err() != nil {
				err = fmt.Errorf("no acknowledgement in time: %w", ctx.Err())
			}
			return i, k.explain(err)
		}
	}
	return len(records), nil
}

func (k *toKafka) explain(err error) error {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("there is no topic %s: create it, or give the user the right to see it", k.d.name)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("the user may not write to the topic %s: %w", k.d.name, err)
	}
	return err
}

// open makes the client and connects once: what is wrong with the connection shows at once, while
// producing would try again until the time is over.
func (k *toKafka) open(ctx context.Context) error {
	options := []kgo.Opt{kgo.SeedBrokers(k.d.hosts...), kgo.ClientID("countersign"), kgo.DefaultProduceTopic(k.d.name), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0), kgo.DisableClientMetrics(), kgo.UnknownTopicRetries(1), kgo.RetryTimeout(5 * time.Second),
		kgo.AllowIdempotentProduceCancellation()} // the client is closed then
	dial := k.dial
	if k.d.tls != nil {
		dial = dialTLS(k.dial, k.d.tls)
	}
	options = append(options, kgo.Dialer(dial))
	switch k.d.sasl {
	case saslPlain:
		options = append(options, kgo.SASL(plain.Auth{User: k.d.user, Pass: k.d.password}.AsMechanism()))
	case sasl256:
		options = append(options, kgo.SASL(scram.Auth{User: k.d.user, Pass: k.d.password}.AsSha256Mechanism()))
	case sasl512:
		options = append(options, kgo.SASL(scram.Auth{User: k.d.user, Pass: k.d.password}.AsSha512Mechanism()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := client.Ping(bounded); err != nil {
		client.Close()
		if errors.Is(err, io.EOF) && k.d.sasl != "" {
			err = fmt.Errorf("the broker closed the connection: is the user, the password or sasl=%s wrong?", k.d.sasl)
		}
		return err
	}
	k.client = client
	return nil
}

func (k *toKafka) Close() {
	if k.client != nil {
		k.client.Close()
		k.client = nil
	}
}
