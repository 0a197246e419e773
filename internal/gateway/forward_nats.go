package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// toNATS publishes to a subject that a JetStream stream keeps. A message is published when the one
// before it is acknowledged: a stream whose leader changes could otherwise take a later one alone.
type toNATS struct {
	d     *destination
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	agent string

	conn *nats.Conn // nil: none yet, or it failed
}

// pubAck is what a stream answers; see the JetStream wire API.
type pubAck struct {
	Stream string `json:"stream"`
	Seq    uint64 `json:"seq"`
	Error  *struct {
		Code        int    `json:"code"`
		Description string `json:"description"`
	} `json:"error"`
}

// Send is used by one goroutine at a time.
func (n *toNATS) Send(ctx context.Context, list []message) (int, error) {
	if n.conn == nil || n.conn.IsClosed() {
		if err := n.connect(ctx); err != nil {
			return 0, err
		}
	}
	for i, m := range list {
		if err := n.publish(ctx, m); err != nil {
			// What is under way on this connection must not arrive behind what comes next.
			n.Close()
			return i, err
		}
	}
	return len(list), nil
}

func (n *toNATS) publish(ctx context.Context, m message) error {
	msg := nats.NewMsg(n.d.name)
	msg.Data = m.body
	for _, h := range m.headers {
		msg.Header[h[0]] = []string{h[1]} // not by Set: Standard Webhooks writes them small
	}
	msg.Header.Set(nats.MsgIdHdr, m.id)
	answer, err := n.conn.RequestMsgWithContext(ctx, msg)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("no JetStream stream keeps the subject %s: create one, such as nats stream add --subjects %s, or turn JetStream on (nats-server -js)", n.d.name, n.d.name)
	case err != nil:
		return err
	}
	var ack pubAck
	switch err := json.Unmarshal(answer.Data, &ack); {
	case err != nil || ack.Error == nil && (ack.Stream == "" || ack.Seq == 0):
		return fmt.Errorf("the answer is no acknowledgement of a JetStream stream: some other program answers on the subject %s", n.d.name)
	case ack.Error != nil:
		return fmt.Errorf("the stream refused it: %d %s", ack.Error.Code, ack.Error.Description)
	}
	return nil
}

type natsDialer struct {
	ctx  context.Context
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (d natsDialer) Dial(network, address string) (net.Conn, error) {
	return d.dial(d.ctx, network, address)
}

// connect opens the connection. It is not opened again by itself: what was published on it and is
// not acknowledged is sent again in order, and hosts are those of the URL alone.
func (n *toNATS) connect(ctx context.Context) error {
	urls := make([]string, len(n.d.hosts))
	for i, host := range n.d.hosts {
		urls[i] = "nats://" + host
	}
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	options := []nats.Option{nats.Name(n.agent), nats.NoReconnect(), nats.IgnoreDiscoveredServers(), nats.Timeout(5 * time.Second), nats.SetCustomDialer(natsDialer{bounded, n.dial}),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})} // its own one prints
	switch {
	case n.d.creds != "":
		options = append(options, nats.UserCredentials(n.d.creds))
	case n.d.user != "" && n.d.password == "":
		options = append(options, nats.Token(n.d.user))
	case n.d.user != "":
		options = append(options, nats.UserInfo(n.d.user, n.d.password))
	}
	if n.d.tls != nil {
		options = append(options, nats.Secure(n.d.tls.Clone()))
	}
	conn, err := nats.Connect(strings.Join(urls, ","), options...)
	if err != nil {
		return fmt.Errorf("connecting to NATS: %w", err)
	}
	if !conn.HeadersSupported() {
		conn.Close()
		return errors.New("the NATS server is older than 2.2 and takes no headers")
	}
	n.conn = conn
	return nil
}

func (n *toNATS) Close() {
	if n.conn != nil {
		n.conn.Close()
		n.conn = nil
	}
}
