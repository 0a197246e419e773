package countersigntest

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

// ServeHTTP answers callbacks at any path. Those of package merchant take their own types alone.
func (m *Merchant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "callbacks come by POST", http.StatusMethodNotAllowed)
		return
	}
	m.serve(w, r)
}

// lanes says which lane's callbacks a path takes.
var lanes = map[string]countersign.Lane{
	merchant.DefaultNotifyPath: countersign.LaneNotify, merchant.DefaultWithdrawPath: countersign.LaneWithdraw,
}

func (m *Merchant) serve(rw http.ResponseWriter, r *http.Request) {
	w := &answering{ResponseWriter: rw, asked: r.Header}
	if m.c.CallbackAPIKey != "" && !m.c.CallbackAPIKey.Equal(countersign.APIKey(r.Header.Get(m.c.APIKeyHeader))) {
		http.Error(w, "wrong "+m.c.APIKeyHeader, http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, envelope.MaxBody))
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	signature, word := m.verify(r, body)
	if word != "" {
		m.send(w, http.StatusOK, m.notSigned(word))
		return
	}
	cb, plaintext, code := m.open(body)
	if code != countersign.CodeAccepted {
		status := http.StatusOK
		if code == countersign.CodeCannotOpen || code == countersign.CodeMalformed {
			status = http.StatusBadRequest
		}
		m.send(w, status, m.refusal(code))
		return
	}
	if lane, known := lanes[r.URL.Path]; known && cb.CallbackType().Lane() != lane {
		m.send(w, http.StatusOK, m.refusal(countersign.CodeWrongURL))
		return
	}
	m.mu.Lock()
	if word := holds(signature, plaintext, m.uuids[cb.UUID()]); word != "" {
		m.mu.Unlock()
		m.send(w, http.StatusOK, m.notSigned(word))
		return
	}
	m.uuids[cb.UUID()] = true
	fault := NoMerchantFault
	if m.c.Fault != nil {
		fault = m.c.Fault(m.n, cb)
	}
	refused := countersign.CodeAccepted
	if m.c.Code != nil {
		refused = m.c.Code(cb)
	}
	m.n++
	m.received = append(m.received, cb)
	previous := m.previous
	m.previous = cb.UUID()
	w.fault, w.earlier = fault, m.asked
	if envelope.Signed(r.Header) {
		m.asked = r.Header
	}
	gate := m.gate
	m.mu.Unlock()
	m.answer(w, r, cb, refused, previous, gate)
}

func (m *Merchant) open(body []byte) (cb countersign.Callback, plaintext []byte, code countersign.ErrCode) {
	inner, _, err := envelope.UnwrapField(body, m.c.BodyField)
	if err != nil {
		return nil, nil, countersign.CodeCannotOpen
	}
	plaintext, err = envelope.Open(m.c.RequestKey, m.c.Padding, inner)
	if err != nil {
		return nil, nil, countersign.CodeCannotOpen
	}
	if !m.c.Unbound && countersign.CheckBinding(plaintext) != countersign.BindingHolds {
		return nil, nil, countersign.CodeMalformed
	}
	cb, err = countersign.ParseCallback(plaintext, countersign.ParseOptions{Lenient: true})
	return cb, plaintext, countersign.CodeOf(err)
}

// answer answers cb with the fault of w, or with code if that is not 0.
func (m *Merchant) answer(w *answering, r *http.Request, cb countersign.Callback, code countersign.ErrCode,
	previous string, gate <-chan struct{}) {
	row := w.fault.row()
	switch code = cmp.Or(code, row.code); {
	case code != countersign.CodeAccepted:
		m.send(w, http.StatusOK, m.refusal(code))
		return
	case w.fault == FaultHang:
		m.hang(r.Context())
		return
	case w.fault == FaultForever:
		m.flood(w, r)
		return
	}
	m.take(cb, w.fault == FaultDoneTwice)
	resp, plaintext := m.honest(cb)
	if plaintext == nil { // an order that is not known; the faults below need an answer
		m.send(w, http.StatusOK, resp)
		return
	}
	if row.answer != nil {
		plaintext = row.answer(plaintext, cb, previous)
		resp = m.sealed(plaintext, m.c.Key)
	}
	w.plaintext = plaintext
	body := raw(resp)
	if row.body != nil {
		body = row.body(m, resp, plaintext)
	}
	status := http.StatusOK
	switch w.fault {
	case FaultAnswerLost:
		panic(http.ErrAbortHandler)
	case FaultAnswersLate:
		select {
		case <-gate:
		case <-r.Context().Done():
		case <-m.closing:
		}
	case FaultCloseEarly:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		m.sendRaw(w, http.StatusOK, body[:len(body)/2])
		panic(http.ErrAbortHandler)
	case FaultTrickle:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		m.sign(w, http.StatusOK, body)
		m.trickle(w, r, body)
		return
	case FaultRedirect:
		w.Header().Set("Location", r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	case FaultStatus500:
		status = http.StatusInternalServerError
	case FaultStatus204:
		w.WriteHeader(http.StatusNoContent)
		return
	case FaultHTML:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>Welcome</title>"))
		return
	case FaultContentType:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	case FaultAnswerAltered: // sealed again, which gives other bytes
		w.Header().Set("Content-Type", "application/json")
		m.sign(w, http.StatusOK, body)
		_, _ = w.Write(raw(m.sealed(plaintext, m.c.Key)))
		return
	}
	m.sendRaw(w, status, body)
}

func (m *Merchant) send(w *answering, status int, r countersign.Response) {
	body, err := r.Marshal()
	if err != nil {
		http.Error(w, "no response", http.StatusInternalServerError)
		return
	}
	m.sendRaw(w, status, body)
}

func (m *Merchant) sendRaw(w *answering, status int, body []byte) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	m.sign(w, status, body)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// hang waits until the request is given up or the server closes.
func (m *Merchant) hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-m.closing:
	}
}

// flood writes spaces, which JSON allows before an object, so that a reader without
// a bound does not stop.
func (m *Merchant) flood(w *answering, r *http.Request) {
	page := bytes.Repeat([]byte(" "), 32<<10)
	w.Header().Set("Content-Type", "application/json")
	for {
		select {
		case <-r.Context().Done():
			return
		case <-m.closing:
			return
		default:
		}
		if _, err := w.Write(page); err != nil {
			return
		}
	}
}

func (m *Merchant) trickle(w http.ResponseWriter, r *http.Request, body []byte) {
	connection := http.NewResponseController(w)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := range body {
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-m.closing:
			return
		}
		if _, err := w.Write(body[i : i+1]); err != nil {
			return
		}
		_ = connection.Flush()
	}
}
