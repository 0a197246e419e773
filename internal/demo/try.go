package demo

import (
	"bytes"
	"context"
	_ "embed" // the page
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"countersign"
	"countersign/client"
	"countersign/conformance"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/internal/learn"
)

//go:embed try.html
var tryHTML string

var tryPage = template.Must(template.New("try").Parse(tryHTML))

// listenTry binds the page on the loopback.
func (d *Demo) listenTry(log *slog.Logger) (*daemon.Listener, error) {
	return daemon.Listen(daemon.ListenConfig{Name: "try", Addr: "127.0.0.1:0", Handler: http.NewCrossOriginProtection().Handler(&tryer{d: d}), Most: 100, Drain: time.Second, Log: log})
}

// handOver writes what another endpoint needs to take what the page sends.
func (d *Demo) handOver(dir string) error {
	d.handover = dir
	return errors.Join(os.MkdirAll(dir, 0o700), daemon.CreateFiles(dir, []daemon.NewFile{
		{Name: "public.b64", Data: []byte(d.key.PublicBase64() + "\n"), Mode: 0o600},
		{Name: "api.key", Data: []byte(d.apiKey.Reveal() + "\n"), Mode: 0o600},
	}))
}

// tryer is the page that sends any callback, with any fault, to the demo's merchant or to a URL, and shows both
// sides. It seals with the private key of the demo's service, so no daemon may have it.
type tryer struct {
	d  *Demo
	mu sync.Mutex // one exchange at a time, so that what the merchant says is about it
}

// tryFaults leaves out those of signatures: the page signs nothing, and the demo's merchant of that
// page demands none.
func tryFaults() []countersigntest.ServiceFault {
	return slices.DeleteFunc(slices.Clone(conformance.CallerFaults()), countersigntest.ServiceFault.NeedsSigning)
}

// tried is what the page shows.
type tried struct {
	Types    []countersign.Type
	Faults   []countersigntest.ServiceFault
	Consoles [2]string
	Handover string // directory of the keys for another endpoint

	Type             countersign.Type
	Fault            countersigntest.ServiceFault
	To, Members      string
	CallBackID, User string
	Order            bool // the merchant gets it first

	Error     string
	Said      string // the provider's side
	Elsewhere bool
	Merchant  []string // what the demo's merchant saw and decided, body by body
}

func (t *tryer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := tried{Types: countersign.TypeUnknown.Values(), Faults: tryFaults(), Consoles: [2]string{t.d.service.URL() + "/console/", t.d.gateway.URL() + "/console/"}, Handover: t.d.handover,
		Type: countersign.TypeDeposited, CallBackID: fmt.Sprintf("try-%d", time.Now().UnixMilli()), User: "75746", Order: true}
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, 128<<10)
		if err := t.send(r, &page); err != nil {
			page.Error = err.Error()
		}
	}
	var b bytes.Buffer
	if err := tryPage.Execute(&b, page); err != nil {
		http.Error(w, "the page failed", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes())
}

// send makes the exchange that the form asks for.
func (t *tryer) send(r *http.Request, page *tried) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	form := r.PostForm
	i := slices.IndexFunc(page.Types, func(typ countersign.Type) bool { return form.Get("type") == fmt.Sprint(int(typ)) })
	page.Fault, page.To, page.Members = countersigntest.ServiceFault(form.Get("fault")), strings.TrimSpace(form.Get("to")), form.Get("members")
	page.CallBackID, page.User, page.Order, page.Elsewhere = form.Get("callBackId"), form.Get("user"), form.Get("order") != "", page.To != ""
	if i < 0 || page.Fault != "" && !slices.Contains(page.Faults, page.Fault) {
		return fmt.Errorf("there is no type %q or no fault %q", form.Get("type"), page.Fault)
	}
	page.Type = page.Types[i]
	to := t.d.gateway.CallbackURL()
	if page.Elsewhere {
		to = page.To
	}
	notify, withdraw := conformance.EndpointOf(to)
	caller, err := conformance.NewCaller(conformance.Config{NotifyURL: notify, WithdrawURL: withdraw, Key: t.d.key, APIKey: t.d.apiKey, User: page.User}, envelope.FormBare, "")
	if err != nil {
		return err
	}
	var set []countersign.Member
	if page.Type != countersign.TypeDeposited && page.Type != countersign.TypeAddress && page.CallBackID != "" {
		set = append(set, conformance.NewMember("callBackId", page.CallBackID, false))
	}
	for line := range strings.Lines(page.Members) {
		if line = strings.TrimSpace(line); line != "" {
			m, err := conformance.ParseMember(line)
			if err != nil {
				return err
			}
			set = append(set, m)
		}
	}
	message, err := caller.Message(page.Type, nil, set)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if page.Order && !page.Elsewhere && page.Type == countersign.TypeRequestWithdraw {
		if _, _, err := t.d.gateway.Book().AddOrder(r.Context(), client.NewOrder{
			CallBackID: page.CallBackID, TenantUserID: page.User,
		}.Paying(countersigntest.Order(1)), "", db.MillisOf(time.Now())); err != nil {
			return fmt.Errorf("ordering it at the merchant: %w", err)
		}
	}
	if err := caller.Await(r.Context(), 0); err != nil {
		return err
	}
	t.d.tap.start()
	sent, err := caller.Send(r.Context(), page.Type, message, page.Fault)
	if page.Merchant = t.d.tap.end(); err == nil {
		page.Said = sent.String()
	}
	return err
}

// tap sees what comes to the demo's merchant and what its log says of it, while an exchange is tried.
type tap struct {
	on   atomic.Bool
	mu   sync.Mutex // held while the merchant works on a callback, so that log lines are of that one
	seen []string

	writing sync.Mutex // of lines: callbacks of the service itself may come meanwhile
	lines   strings.Builder
}

// said returns the lines of the log since the last call.
func (t *tap) said() string {
	t.writing.Lock()
	defer t.writing.Unlock()
	defer t.lines.Reset()
	return t.lines.String()
}

func (t *tap) start() { t.on.Store(true) }

func (t *tap) end() []string {
	t.on.Store(false)
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := t.seen
	t.seen = nil
	return seen
}

// wrap wraps the merchant's handler. A response goes out when what it says was noted.
func (t *tap) wrap(key *envelope.Key, next http.Handler) http.Handler {
	reader := learn.Reader{Key: key}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !t.on.Load() || r.Header.Get("User-Agent") != conformance.UserAgent { // the service's own callbacks go on meanwhile
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, envelope.MaxBody))
		if err != nil {
			http.Error(w, "the body did not arrive", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		t.mu.Lock()
		defer t.mu.Unlock()
		t.said()
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		t.seen = append(t.seen, reader.Read(body).String()+"decided    "+t.said())
		passOn(w, rec)
	})
}

// tapped is the merchant's log.
type tapped struct {
	slog.Handler
	t *tap
}

// Enabled is true while an exchange is tried: what is accepted is logged at a lower level.
func (l tapped) Enabled(ctx context.Context, level slog.Level) bool {
	return l.t.on.Load() || l.Handler.Enabled(ctx, level)
}

// Handle notes what the merchant says of a callback.
func (l tapped) Handle(ctx context.Context, r slog.Record) error {
	if l.t.on.Load() && r.Message == "callback" {
		l.t.writing.Lock()
		defer l.t.writing.Unlock()
		r.Attrs(func(a slog.Attr) bool {
			fmt.Fprintf(&l.t.lines, "%s: %v; ", a.Key, a.Value)
			return true
		})
		l.t.lines.WriteByte('\n')
	}
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs and WithGroup keep the tap.
func (l tapped) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tapped{l.Handler.WithAttrs(attrs), l.t}
}

// WithGroup keeps the tap.
func (l tapped) WithGroup(name string) slog.Handler { return tapped{l.Handler.WithGroup(name), l.t} }
