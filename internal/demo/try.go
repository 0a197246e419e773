package demo

import (
	"bytes"
	"context"
	_ "embed" // the page
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"countersign"
	"countersign/client"
	"countersign/conformance"
	"countersign/countersigntest"
	"countersign/internal/daemon"
	"countersign/internal/db"
)

//go:embed try.html
var tryHTML string

var tryPage = template.Must(template.New("try").Parse(tryHTML))

// listenTry binds the page on the loopback.
func (d *Demo) listenTry(log *slog.Logger) (*daemon.Listener, error) {
	return daemon.Listen(daemon.ListenConfig{Name: "try", Addr: "127.0.0.1:0",
		Handler: http.NewCrossOriginProtection().Handler(newTryer(d)), Most: 100, Drain: time.Second, Log: log})
}

// handOver writes what another endpoint needs to accept what the page sends.
func (d *Demo) handOver(dir string) error {
	d.handover = dir
	return errors.Join(os.MkdirAll(dir, 0o700), daemon.CreateFiles(dir, []daemon.NewFile{
		{Name: "public.b64", Data: []byte(d.key.PublicBase64() + "\n")},
		{Name: "api.key", Data: []byte(d.apiKey.Reveal() + "\n")},
	}))
}

// tryer is the page that sends any callback, with any fault, to the demo's merchant or to a URL, and shows both sides.
// It seals with the private key of the demo's service, so no daemon may have it.
type tryer struct {
	d       *Demo
	mu      sync.Mutex // one exchange at a time, so that what the merchant says is about it
	example func() tried
}

// newTryer returns the page. When first opened, it shows a deposit that it has sent.
func newTryer(d *Demo) *tryer {
	t := &tryer{d: d}
	t.example = sync.OnceValue(func() tried {
		page := t.page()
		page.Example = true
		if err := t.send(context.Background(), &page); err != nil {
			page.Error = err.Error()
		}
		return page
	})
	return t
}

// tryFaults returns all faults but those of signatures: the page signs nothing, and the demo's merchant demands no
// signature.
func tryFaults() []countersigntest.ServiceFault {
	return slices.DeleteFunc(slices.Clone(countersigntest.ServiceFaults), countersigntest.ServiceFault.NeedsSigning)
}

// tried is the content of the page.
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
	Example          bool // nobody has sent the form yet

	Error     string
	Said      string // the provider's side
	Elsewhere bool
	Merchant  string // what the demo's merchant saw
}

// page returns the page before anything is sent.
func (t *tryer) page() tried {
	return tried{
		Types: countersign.TypeUnknown.Values(), Faults: tryFaults(), Handover: t.d.handover,
		Consoles: [2]string{t.d.service.URL() + "/console/", t.d.gateway.URL() + "/console/"},
		Type:     countersign.TypeDeposited, CallBackID: fmt.Sprintf("try-%d", time.Now().UnixMilli()), User: user,
		Order: true,
	}
}

func (t *tryer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := t.page()
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, 128<<10)
		err := page.read(r)
		if err == nil {
			err = t.send(r.Context(), &page)
		}
		if err != nil {
			page.Error = err.Error()
		}
	} else {
		id := page.CallBackID
		page = t.example()
		page.CallBackID = id
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

// read reads the form.
func (page *tried) read(r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	form := r.PostForm
	i := slices.IndexFunc(page.Types, func(typ countersign.Type) bool { return form.Get("type") == fmt.Sprint(int(typ)) })
	page.Fault, page.To, page.Members = countersigntest.ServiceFault(form.Get("fault")), strings.TrimSpace(form.Get("to")),
		form.Get("members")
	page.CallBackID, page.User, page.Order, page.Elsewhere = form.Get("callBackId"), form.Get("user"),
		form.Get("order") != "", page.To != ""
	if i < 0 || page.Fault != "" && !slices.Contains(page.Faults, page.Fault) {
		return fmt.Errorf("there is no type %q or no fault %q", form.Get("type"), page.Fault)
	}
	page.Type = page.Types[i]
	return nil
}

// send makes the exchange that the page asks for.
func (t *tryer) send(ctx context.Context, page *tried) error {
	to := t.d.gateway.CallbackURL()
	if page.Elsewhere {
		to = page.To
	}
	notify, withdraw := conformance.EndpointOf(to)
	caller, err := conformance.New(conformance.Config{
		NotifyURL: notify, WithdrawURL: withdraw, Key: t.d.key, APIKey: t.d.apiKey, User: page.User,
	})
	if err != nil {
		return err
	}
	members := page.Members
	var set []countersign.Member
	if page.Type != countersign.TypeDeposited && page.Type != countersign.TypeAddress && page.CallBackID != "" {
		members = "callBackId=" + page.CallBackID + "\n" + members
	}
	for line := range strings.Lines(members) {
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
		if _, _, err := t.d.gateway.Book().AddOrder(ctx, client.NewOrder{
			CallBackID: page.CallBackID, TenantUserID: page.User,
		}.Paying(countersigntest.Order(1)), "", db.MillisOf(time.Now())); err != nil {
			return fmt.Errorf("ordering it at the merchant: %w", err)
		}
	}
	if err := caller.Await(ctx, 0); err != nil {
		return err
	}
	t.d.tap.said()
	sent, err := caller.Send(ctx, page.Type, message, page.Fault)
	if page.Merchant = t.d.tap.said(); err == nil {
		page.Said = sent.String()
	}
	return err
}
