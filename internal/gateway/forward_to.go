package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"countersign/internal/signed"
)

// carrier takes messages to where a merchant's programs read them in order: a stream or a topic.
type carrier interface {
	// Send sends messages in their order and gives how many of them, from the first one on, are
	// acknowledged. With fewer than all, err is of the next one. Those behind it may
	// have arrived too.
	Send(ctx context.Context, list []message) (acked int, err error)
	Close()
}

// message is an entry of a feed as it is sent.
type message struct {
	id   string // webhook-id
	key  string // messages with the same one stay in order where a topic has several parts
	body []byte

	headers [][2]string
}

// destination is what a URL of a stream or a topic says. It holds secrets: it is not to be printed.
type destination struct {
	kafka    bool
	hosts    []string // each with its port
	user     string
	password string
	name     string // of the subject or the topic
	tls      *tls.Config
	sasl     string // of kafka with a user
	creds    string // file of nats
}

// The schemes of --forward-url beside http and https.
const (
	schemeNATS     = "nats"
	schemeNATSTLS  = "tls" // as NATS itself has it
	schemeKafka    = "kafka"
	schemeKafkaTLS = "kafka+ssl"
)

const (
	saslPlain = "plain"
	sasl256   = "scram-sha-256"
	sasl512   = "scram-sha-512"
)

// errForwardURL does not have the URL: it may hold secrets.
var errForwardURL = errors.New("the URL must be https://, http://, nats://HOST/SUBJECT, tls://HOST/SUBJECT (NATS with TLS), kafka://HOST/TOPIC or kafka+ssl://HOST/TOPIC")

var (
	natsSubject = regexp.MustCompile(`^[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)*$`)
	kafkaTopic  = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
)

// parseDestination reads the URL of a stream or a topic; nil: it is another URL, to post to.
// Errors do not have the URL.
func parseDestination(text string) (*destination, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	switch scheme {
	case "http", "https":
		return nil, nil
	case schemeNATS, schemeNATSTLS, schemeKafka, schemeKafkaTLS:
	default:
		ok = false
	}
	if !ok {
		return nil, errForwardURL
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, name, _ := strings.Cut(rest, "/")
	d := &destination{kafka: scheme == schemeKafka || scheme == schemeKafkaTLS}
	if i := strings.LastIndex(hosts, "@"); i >= 0 {
		// A URL of its own, because url.Parse knows no list of hosts.
		u, err := url.Parse("x://" + hosts[:i] + "@h")
		if err != nil || u.User == nil || u.User.Username() == "" {
			return nil, errors.New("the user and the password in the URL must be percent-encoded, with the user not empty")
		}
		d.user = u.User.Username()
		d.password, _ = u.User.Password()
		hosts = hosts[i+1:]
	}
	ports := map[string]string{schemeNATS: "4222", schemeNATSTLS: "4222", schemeKafka: "9092", schemeKafkaTLS: "9093"}
	for host := range strings.SplitSeq(hosts, ",") {
		at, err := hostPort(host, ports[scheme])
		if err != nil {
			return nil, err
		}
		d.hosts = append(d.hosts, at)
	}
	var err error
	if d.name, err = url.PathUnescape(name); err != nil {
		return nil, errors.New("the subject or topic in the URL is not percent-encoded")
	}
	switch {
	case !d.kafka && !natsSubject.MatchString(d.name):
		return nil, errors.New("the path of a nats URL must be one subject, such as nats://HOST/countersign.feeds: letters, digits, - and _, with points between them")
	case d.kafka && !kafkaTopic.MatchString(d.name):
		return nil, errors.New("the path of a kafka URL must be one topic, such as kafka://HOST/countersign: 1 to 249 letters, digits, points, - and _")
	}
	return d, d.options(query, scheme == schemeNATSTLS || scheme == schemeKafkaTLS)
}

func hostPort(host, port string) (string, error) {
	name, given, err := net.SplitHostPort(host)
	if err != nil {
		name, given = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), port
	}
	if name == "" || given == "" || strings.ContainsAny(name, "[]@/\\ ") || strings.Contains(name, ":") && net.ParseIP(name) == nil {
		return "", errors.New("the URL must have a host, or several with commas between them: HOST, HOST:PORT or [IPv6]:PORT")
	}
	return net.JoinHostPort(name, given), nil
}

// options reads the query of the URL.
func (d *destination) options(query string, secure bool) error {
	q, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the options behind ? in the URL are not percent-encoded")
	}
	known := []string{"ca", "cert", "key", "creds"}
	if d.kafka {
		known[3] = "sasl"
	}
	for name, values := range q {
		if !slices.Contains(known, name) || len(values) != 1 || values[0] == "" {
			return fmt.Errorf("the options behind ? in the URL are %s, each once and with a value", strings.Join(known, ", "))
		}
	}
	if d.creds = q.Get("creds"); d.creds != "" && d.user != "" {
		return errors.New("the URL has a user and creds: give one of them")
	}
	d.sasl = q.Get("sasl")
	switch {
	case d.sasl == "" && d.kafka && d.user != "":
		d.sasl = sasl512
	case d.sasl != "" && d.user == "":
		return errors.New("sasl in the URL needs a user and a password before the host")
	case d.sasl != "" && d.sasl != saslPlain && d.sasl != sasl256 && d.sasl != sasl512:
		return fmt.Errorf("sasl in the URL must be %s, %s or %s", sasl512, sasl256, saslPlain)
	}
	switch {
	case d.sasl == saslPlain && !secure:
		return errors.New("sasl=plain sends the password as it is: give kafka+ssl://")
	case !secure && (q.Get("ca") != "" || q.Get("cert") != "" || q.Get("key") != ""):
		return errors.New("ca, cert and key in the URL are for TLS: give tls:// or kafka+ssl://")
	case secure:
		return d.withTLS(q.Get("ca"), q.Get("cert"), q.Get("key"))
	}
	return nil
}

// withTLS reads the files of a connection with TLS.
func (d *destination) withTLS(ca, cert, key string) error {
	d.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("ca in the URL: %w", err)
		}
		d.tls.RootCAs = x509.NewCertPool()
		if !d.tls.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("ca in the URL: %s has no certificate in PEM", ca)
		}
	}
	if cert == "" && key == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("cert and key in the URL: %w", err)
	}
	d.tls.Certificates = []tls.Certificate{pair}
	return nil
}

// carrier gives what sends to d. It opens nothing.
func (d *destination) carrier(dial func(ctx context.Context, network, address string) (net.Conn, error), agent string) carrier {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	}
	if d.kafka {
		return &toKafka{d: d, dial: dial, agent: agent}
	}
	return &toNATS{d: d, dial: dial, agent: agent}
}

// dialTLS opens connections with TLS, for the host that is dialled.
func dialTLS(dial func(ctx context.Context, network, address string) (net.Conn, error), config *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		plain, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := config.Clone()
		if c.ServerName, _, err = net.SplitHostPort(address); err != nil {
			c.ServerName = address
		}
		conn := tls.Client(plain, c)
		if err := conn.HandshakeContext(ctx); err != nil {
			plain.Close()
			return nil, err
		}
		return conn, nil
	}
}

// signedHeaders are those of a message, as a POST has them.
func signedHeaders(secret signed.Secret, id string, at time.Time, body []byte) [][2]string {
	return [][2]string{{"Content-Type", "application/json"}, {signed.HeaderID, id}, {signed.HeaderTimestamp, fmt.Sprint(at.Unix())},
		{signed.HeaderSignature, signed.Sign(secret, id, at, body)}}
}
