package conformance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/learn"
)

// ListenerConfig says what a Listener is.
type ListenerConfig struct {
	// Merchant has the keys and what the provider does. Its functions are set by NewListener.
	Merchant countersigntest.MerchantConfig
	// Orders are confirmed, and no others. One without a callBackId is any order.
	Orders []Order
	Answer Answer
	// Ask gives the answer to a callback in place of Answer. Nil: nobody is asked. One
	// goroutine at a time calls it.
	Ask func(what string) Answer
	// Late is how long FaultAnswersLate takes.
	Late time.Duration
	// Keep is the directory for the bodies; it must be there. Empty: they are not kept.
	Keep string
	Out  io.Writer // gets what each callback shows. Required
}

// Listener plays a merchant for people: it shows each callback as it comes, keeps its body, and
// answers as its ListenerConfig says.
type Listener struct {
	c        ListenerConfig
	reader   learn.Reader
	merchant *countersigntest.Merchant

	mu sync.Mutex // held while a text is written, so that texts do not mix
	n  int
}

// NewListener makes a Listener. Close ends what it holds back.
func NewListener(c ListenerConfig) (*Listener, error) {
	h := &Listener{c: c}
	m := &h.c.Merchant
	orders := map[string]Order{}
	for _, o := range c.Orders {
		if _, err := o.Details(); err != nil {
			return nil, fmt.Errorf("order %q: %w", o.CallBackID, err)
		}
		orders[o.CallBackID] = o
	}
	order := func(id string) (Order, bool) {
		o, known := orders[id]
		if !known {
			o, known = orders[""]
		}
		return o, known
	}
	m.Orders = func(id string) (countersign.Details, bool) {
		o, known := order(id)
		d, err := o.Details()
		return d, known && err == nil
	}
	m.Users = func(id string) string {
		o, _ := order(id)
		return cmp.Or(o.TenantUserID, "65515")
	}
	var now Answer // to the callback between Fault and Code, which follow one another under a lock
	m.Fault = func(_ int, cb countersign.Callback) countersigntest.MerchantFault {
		if now = c.Answer; c.Ask != nil {
			now = c.Ask(fmt.Sprintf("%s %q", cb.CallbackType().Words(), cb.EventID()))
		}
		if now.Fault == countersigntest.FaultAnswersLate {
			time.AfterFunc(c.Late, h.merchant.Release)
		}
		return now.Fault
	}
	m.Code = func(cb countersign.Callback) countersign.ErrCode {
		o, _ := order(cb.OrderID())
		otherUser := o.TenantUserID != "" && cb.User() != "" && o.TenantUserID != cb.User()
		if now == (Answer{}) && otherUser && cb.CallbackType() == countersign.TypeRequestWithdraw {
			return countersign.CodeUnknownOrder
		}
		return now.Code
	}
	var err error
	if h.merchant, err = countersigntest.MakeMerchant(*m); err != nil {
		return nil, err
	}
	h.reader = learn.Reader{Key: m.Key, Padding: m.Padding, Field: m.BodyField}
	if m.RequestKey != nil {
		h.reader.Key = m.RequestKey
	}
	return h, nil
}

// Close ends the callbacks that are held back.
func (h *Listener) Close() { h.merchant.Close() }

// bodyTimeout bounds the time to read a body.
const bodyTimeout = 30 * time.Second

// ServeHTTP shows a callback, answers it, and says how.
func (h *Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, envelope.MaxBody))
	n := h.show(r, body, err)
	r.Body = io.NopCloser(bytes.NewReader(body))
	rec := &recorder{ResponseWriter: w}
	defer func() { h.say("answered   callback %d: %s\n", n, rec) }() // also where a fault breaks off
	if err != nil {
		http.Error(rec, "the body did not arrive", http.StatusBadRequest)
		return
	}
	h.merchant.ServeHTTP(rec, r)
}

func (h *Listener) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(h.c.Out, format, args...)
}

// show says what came, and keeps it.
func (h *Listener) show(r *http.Request, body []byte, err error) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	says, kept := "", ""
	switch {
	case err != nil:
		says = fmt.Sprintf("refused    its body did not arrive: %v\n", err)
	case len(body) > 0:
		says = h.reader.Read(body).String()
		kept = h.keep(body)
	}
	fmt.Fprintf(h.c.Out, "\ncallback %d: %s %s from %s\n%s%s", h.n, r.Method, strconv.QuoteToGraphic(r.URL.Path), r.RemoteAddr, says, kept)
	return h.n
}

// recorder remembers the beginning of a response.
type recorder struct {
	http.ResponseWriter
	status int
	body   []byte
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.body = append(w.body, b[:min(len(b), countersign.MaxMessage-len(w.body))]...)
	return w.ResponseWriter.Write(b)
}

// String returns what was answered, without its secrets.
func (w *recorder) String() string {
	var response struct {
		Code    json.RawMessage `json:"errCode"`
		Message string          `json:"message"`
		Data    string          `json:"data"`
	}
	switch err := json.Unmarshal(w.body, &response); {
	case w.status == 0:
		return "nothing"
	case err != nil:
		return fmt.Sprintf("status %d, and no response of the protocol (%d bytes)", w.status, len(w.body))
	}
	text := fmt.Sprintf("status %d, errCode %s", w.status, response.Code)
	if response.Message != "" {
		text += ": " + response.Message
	}
	return text + fmt.Sprintf(", data of %d characters", len(response.Data))
}
