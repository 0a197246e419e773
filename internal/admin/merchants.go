package admin

import (
	"fmt"
	"mime"
	"net/url"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/audit"
	"countersign/internal/outbox"
)

// Defaults and bounds of a merchant's settings.
const (
	defaultConcurrency   = 64
	defaultConfirmWithin = time.Hour
	minConfirmWithin     = 10 * time.Second
	maxConfirmWithin     = 7 * 24 * time.Hour
	minReleaseWithin     = time.Minute
	maxReleaseWithin     = 365 * 24 * time.Hour
	maxDelay             = 7 * 24 * time.Hour
	defaultContentType   = "application/x-www-form-urlencoded"
	defaultBody          = "bare"
	defaultPauseReason   = "paused by an operator"
)

func (s *Server) createMerchant(c *api.Call, _ api.None, in client.NewMerchant) (client.CreatedMerchant, error) {
	c.Concerns(in.ID)
	m := outbox.Merchant{
		ID: in.ID, Name: or(in.Name, in.ID), State: outbox.MerchantActive,
		NotifyURL: in.NotifyURL, WithdrawURL: in.WithdrawURL,
		Scheme:      outbox.Scheme(or(in.Scheme, client.SchemeService)),
		Concurrency: or(in.Concurrency, defaultConcurrency), RatePerSecond: in.RatePerSecond,
		ConfirmWithin:  time.Duration(or(in.ConfirmWithin, client.Duration(defaultConfirmWithin))),
		ReleaseWithin:  time.Duration(or(in.ReleaseWithin, client.Duration(outbox.DefaultReleaseWithin))),
		CallbackAPIKey: countersign.APIKey(in.CallbackAPIKey),
		APIKey:         countersign.APIKey(in.APIKey),
		Settings: outbox.Settings{
			FinalCodes: finalCodes(in.FinalCodes), ContentType: in.ContentType, Body: string(in.Body),
			AllowPrivate: s.DefaultAllowPrivate, Collect: outbox.Collect(in.Collect),
		},
	}
	var faults api.Faults
	if in.AllowPrivate != nil {
		s.checkAllowPrivate(*in.AllowPrivate, &faults)
		m.Settings.AllowPrivate = *in.AllowPrivate
	}
	if in.Retry != nil {
		m.Settings.NotifyRetry, m.Settings.WithdrawRetry = keptSchedule(in.Retry.Notify), keptSchedule(in.Retry.Withdraw)
	}
	s.checkMerchant(&m, &faults)
	k := keyMaker{scheme: m.Scheme, faults: &faults}
	k.check(in.Key, in.ResponseKey, true)
	if err := faults.Err(); err != nil {
		return client.CreatedMerchant{}, err
	}
	if err := k.make(in.Key, in.ResponseKey, true); err != nil {
		return client.CreatedMerchant{}, err
	}
	if err := k.apply(&m); err != nil {
		return client.CreatedMerchant{}, err
	}
	out := client.CreatedMerchant{Warnings: append(k.warnings, warnings(&m)...), PublicKey: k.publicPart(), ResponsePublicKey: k.responsePublicPart()}
	if m.APIKey == "" {
		out.APIKey = client.Secret(api.RandomText(24))
		m.APIKey = countersign.APIKey(out.APIKey)
	}
	made, err := s.Outbox.CreateMerchant(c.R.Context(), m, c.Now)
	if err != nil {
		return client.CreatedMerchant{}, err
	}
	out.Merchant = merchantOf(made)
	return out, nil
}

// checkAllowPrivate refuses private networks unless the service was started with
// them: a token of the API must not open them.
func (s *Server) checkAllowPrivate(allow bool, faults *api.Faults) {
	if allow && !s.DefaultAllowPrivate {
		faults.Add("body.allowPrivate", "needs a service that was started with --allow-private")
	}
}

// checkMerchant names faults that a schema cannot find.
func (s *Server) checkMerchant(m *outbox.Merchant, faults *api.Faults) {
	if err := s.CheckURL(m.NotifyURL, m.Settings.AllowPrivate); err != nil {
		faults.Add("body.notifyUrl", "is refused: "+err.Error())
	}
	if err := s.CheckURL(m.WithdrawURL, m.Settings.AllowPrivate); err != nil {
		faults.Add("body.withdrawUrl", "is refused: "+err.Error())
	}
	if normalURL(m.NotifyURL) == normalURL(m.WithdrawURL) {
		faults.Add("body.withdrawUrl", "is the notifyUrl; type 2 needs a URL of its own")
	}
	for i, r := range m.Settings.FinalCodes {
		if r.To < r.From {
			faults.Add(fmt.Sprintf("body.finalCodes[%d].to", i), "is below from")
		}
	}
	checkRetry(m.Settings.NotifyRetry, "body.retry.notify", faults)
	checkRetry(m.Settings.WithdrawRetry, "body.retry.withdraw", faults)
	checkWithin("body.confirmWithin", m.ConfirmWithin, faults)
	if m.ReleaseWithin < minReleaseWithin || m.ReleaseWithin > maxReleaseWithin {
		faults.Add("body.releaseWithin", "is not between 1m and 8760h")
	}
	if t := m.Settings.ContentType; t != "" {
		if _, _, err := mime.ParseMediaType(t); err != nil || strings.ContainsFunc(t, func(r rune) bool { return r < ' ' || r > '~' }) {
			faults.Add("body.contentType", "is not a media type")
		}
	}
}

// warnings say what is dangerous about settings that are taken all the same.
func warnings(m *outbox.Merchant) []string {
	if m.Settings.Collect == outbox.CollectAny {
		return []string{"collect is any: where the service was not given the details of a withdrawal, whoever has stolen answers " +
			"of this merchant can have another address or amount confirmed; give details with each withdrawal, or set collect to bound"}
	}
	return nil
}

func checkWithin(location string, d time.Duration, faults *api.Faults) {
	if d < minConfirmWithin || d > maxConfirmWithin {
		faults.Add(location, "is not between 10s and 168h")
	}
}

func checkRetry(r *outbox.Retry, location string, faults *api.Faults) {
	if r == nil {
		return
	}
	for i, d := range r.Delays {
		if d < 0 || d > maxDelay.Milliseconds() {
			faults.Add(fmt.Sprintf("%s.delays[%d]", location, i), "is not between 0s and 168h")
		}
	}
	if r.Every != 0 && (r.Every < 1000 || r.Every > maxDelay.Milliseconds()) {
		faults.Add(location+".every", "is not between 1s and 168h")
	}
}

// normalURL gives the same text for different spellings of one URL.
func normalURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	scheme, host := strings.ToLower(u.Scheme), strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[scheme]
	}
	return scheme + "://" + host + ":" + port + "/" + strings.Trim(u.JoinPath().EscapedPath(), "/") + "?" + u.RawQuery
}

type merchantQuery struct {
	Deleted string `query:"deleted" enum:"true" doc:"true: only merchants that were deleted; absent: only the others"`
	api.Page
}

func (s *Server) merchants(c *api.Call, q merchantQuery, _ api.None) (client.MerchantPage, error) {
	var list []outbox.Merchant
	var err error
	if of := c.Token.BoundTo(); of != nil {
		list, err = s.Lists.MerchantsOf(c.R.Context(), of, q.Deleted != "", q.Cursor, q.Limit+1)
	} else {
		list, err = s.Lists.Merchants(c.R.Context(), q.Deleted != "", q.Cursor, q.Limit+1)
	}
	if err != nil {
		return client.MerchantPage{}, err
	}
	out := client.MerchantPage{Merchants: []client.Merchant{}}
	if len(list) > q.Limit {
		list = list[:q.Limit]
		out.Next = &list[q.Limit-1].ID
	}
	for _, m := range list {
		out.Merchants = append(out.Merchants, merchantOf(m))
	}
	return out, nil
}

// knownMerchant says whether a token can be bound to a merchant.
func (s *Server) knownMerchant(c *api.Call, id string) error {
	_, err := s.Outbox.Merchant(c.R.Context(), id)
	return err
}

func (s *Server) merchant(c *api.Call, _ api.None, _ api.None) (client.Merchant, error) {
	id, err := c.PathID()
	if err != nil {
		return client.Merchant{}, err
	}
	m, err := s.Outbox.Merchant(c.R.Context(), id)
	if err != nil {
		return client.Merchant{}, err
	}
	out := merchantOf(m)
	list, err := s.Lists.Waiting(c.R.Context(), id)
	for _, f := range list {
		out.OldestDue = append(out.OldestDue, client.OldestDue{Lane: client.Lane(f.Lane.String()), Callback: f.Callback, Due: api.TimeOf(f.Due)})
	}
	return out, err
}

func (s *Server) updateMerchant(c *api.Call, _ api.None, in client.MerchantPatch) (client.UpdatedMerchant, *client.Proposed, error) {
	id, err := c.PathID()
	if err != nil {
		return client.UpdatedMerchant{}, nil, err
	}
	m, waits, err := s.change(c, client.ChangeMerchant, id, in, func(m *outbox.Merchant) error { return s.patched(m, in) })
	if err == nil && waits != nil {
		return client.UpdatedMerchant{}, &client.Proposed{Change: waits.Shown(), Warnings: warnings(&m)}, nil
	}
	return client.UpdatedMerchant{Merchant: merchantOf(m), Warnings: warnings(&m)}, nil, err
}

// patched changes m and names what is wrong with it then.
func (s *Server) patched(m *outbox.Merchant, in client.MerchantPatch) error {
	if m.Rotation != nil && (in.APIKey.Set || in.CallbackAPIKey.Set || in.CallbackAPIKey.Null) {
		return outbox.ErrRotating
	}
	s.applyPatch(m, in)
	var faults api.Faults
	s.checkAllowPrivate(in.AllowPrivate.Value, &faults)
	s.checkMerchant(m, &faults)
	return faults.Err()
}

func (s *Server) applyPatch(m *outbox.Merchant, in client.MerchantPatch) {
	set(&m.Name, in.Name, m.Name)
	set(&m.NotifyURL, in.NotifyURL, m.NotifyURL)
	set(&m.WithdrawURL, in.WithdrawURL, m.WithdrawURL)
	if in.APIKey.Set {
		m.APIKey = countersign.APIKey(in.APIKey.Value)
	}
	if in.CallbackAPIKey.Set {
		m.CallbackAPIKey = countersign.APIKey(in.CallbackAPIKey.Value)
	}
	if in.FinalCodes.Set {
		m.Settings.FinalCodes = finalCodes(in.FinalCodes.Value)
	}
	if in.Retry.Null {
		m.Settings.NotifyRetry, m.Settings.WithdrawRetry = nil, nil
	}
	setRetry(&m.Settings.NotifyRetry, in.Retry.Value.Notify)
	setRetry(&m.Settings.WithdrawRetry, in.Retry.Value.Withdraw)
	set(&m.Concurrency, in.Concurrency, defaultConcurrency)
	set(&m.RatePerSecond, in.RatePerSecond, 0)
	setDuration(&m.ConfirmWithin, in.ConfirmWithin, defaultConfirmWithin)
	setDuration(&m.ReleaseWithin, in.ReleaseWithin, outbox.DefaultReleaseWithin)
	set(&m.Settings.AllowPrivate, in.AllowPrivate, s.DefaultAllowPrivate)
	set(&m.Settings.ContentType, in.ContentType, "")
	if in.Body.Set {
		m.Settings.Body = string(in.Body.Value)
	}
	if in.Collect.Set {
		m.Settings.Collect = outbox.Collect(in.Collect.Value)
	}
}

// set changes *v if the member is set; null gives fallback.
func set[T any](v *T, p client.Patch[T], fallback T) {
	switch {
	case p.Null:
		*v = fallback
	case p.Set:
		*v = p.Value
	}
}

func setDuration(v *time.Duration, p client.Patch[client.Duration], fallback time.Duration) {
	d := client.Duration(*v)
	set(&d, p, client.Duration(fallback))
	*v = time.Duration(d)
}

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

func (s *Server) pauseMerchant(c *api.Call, _ api.None, in client.Pause) (client.Merchant, error) {
	return s.setState(c, outbox.MerchantPaused, or(in.Reason, defaultPauseReason))
}

func (s *Server) resumeMerchant(c *api.Call, _ api.None, in client.Resume) (client.Merchant, error) {
	m, err := s.setState(c, outbox.MerchantActive, "")
	if err == nil && in.Resend {
		_, err = s.Outbox.ResendMatching(c.R.Context(), outbox.CallbackFilter{Merchant: m.ID, State: outbox.CallbackPending}, false, c.Now)
	}
	return m, err
}

func (s *Server) setState(c *api.Call, state outbox.MerchantState, reason string) (client.Merchant, error) {
	id, err := c.PathID()
	if err != nil {
		return client.Merchant{}, err
	}
	m, err := s.Outbox.SetMerchantState(c.R.Context(), id, state, reason, c.Now)
	return merchantOf(m), err
}

func finalCodes(in []client.CodeRange) []outbox.CodeRange {
	var list []outbox.CodeRange
	for _, r := range in {
		list = append(list, outbox.CodeRange{From: countersign.ErrCode(r.From), To: countersign.ErrCode(r.To)})
	}
	return list
}

// setRetry changes a schedule if the member is set; null gives the lane's default.
func setRetry(v **outbox.Retry, p client.Patch[client.Schedule]) {
	switch {
	case p.Null:
		*v = nil
	case p.Set:
		*v = keptSchedule(&p.Value)
	}
}

func keptSchedule(r *client.Schedule) *outbox.Retry {
	if r == nil {
		return nil
	}
	kept := &outbox.Retry{Every: time.Duration(r.Every).Milliseconds()}
	if r.Every != 0 && kept.Every == 0 {
		kept.Every = -1 // below a millisecond: refused, not taken for none
	}
	for _, d := range r.Delays {
		kept.Delays = append(kept.Delays, time.Duration(d).Milliseconds())
	}
	return kept
}

func scheduleOf(r *outbox.Retry) *client.Schedule {
	if r == nil {
		return nil
	}
	out := &client.Schedule{Every: client.Duration(time.Duration(r.Every) * time.Millisecond), Delays: []client.Duration{}}
	for _, d := range r.Delays {
		out.Delays = append(out.Delays, client.Duration(time.Duration(d)*time.Millisecond))
	}
	return out
}

// merchantOf shows m without its secrets.
func merchantOf(m outbox.Merchant) client.Merchant {
	out := client.Merchant{
		ID: m.ID, Name: m.Name, State: m.State, PausedReason: m.PausedReason,
		NotifyURL: m.NotifyURL, WithdrawURL: m.WithdrawURL, Scheme: m.Scheme,
		Fingerprint: m.Fingerprint, ResponseFingerprint: m.ResponseFingerprint,
		KeySince: api.TimeOf(m.Since.Key), ResponseKeySince: api.TimeOf(m.Since.ResponseKey),
		APIKeySince: api.TimeOf(m.Since.APIKey), CallbackAPIKeySince: api.TimeOf(m.Since.CallbackAPIKey),
		APIKeyFingerprint: audit.Fingerprint(m.APIKey.Reveal()), CallbackAPIKeyFingerprint: audit.Fingerprint(m.CallbackAPIKey.Reveal()), Rotation: rotationOf(m),
		FinalCodes: []client.CodeRange{}, Concurrency: m.Concurrency, RatePerSecond: m.RatePerSecond,
		ConfirmWithin: client.Duration(m.ConfirmWithin), ReleaseWithin: client.Duration(m.ReleaseWithin), AllowPrivate: m.Settings.AllowPrivate,
		ContentType: or(m.Settings.ContentType, defaultContentType), Body: client.BodyForm(or(m.Settings.Body, defaultBody)),
		Collect: client.Collect(or(m.Settings.Collect, outbox.CollectBound)),
		Version: m.Version, Created: api.TimeOf(m.Created), Updated: api.TimeOf(m.Updated),
	}
	for _, r := range m.Settings.FinalCodes {
		out.FinalCodes = append(out.FinalCodes, client.CodeRange{From: int64(r.From), To: int64(r.To)})
	}
	if len(out.FinalCodes) == 0 {
		out.FinalCodes = append(out.FinalCodes, client.CodeRange{From: 2000, To: 2999})
	}
	if m.Settings.NotifyRetry != nil || m.Settings.WithdrawRetry != nil {
		out.Retry = &client.Retry{Notify: scheduleOf(m.Settings.NotifyRetry), Withdraw: scheduleOf(m.Settings.WithdrawRetry)}
	}
	return out
}
