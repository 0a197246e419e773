package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

const (
	maxDelay           = 7 * 24 * time.Hour
	defaultPauseReason = "paused by an operator"
)

func (s *Server) createMerchant(c *api.Call, _ api.None, in client.NewMerchant) (client.CreatedMerchant, error) {
	c.Concerns(in.ID)
	m := outbox.Merchant{
		KeySet: outbox.KeySet{MerchantKeys: outbox.MerchantKeys{APIKey: countersign.APIKey(in.APIKey),
			CallbackAPIKey: countersign.APIKey(in.CallbackAPIKey)}}, ID: in.ID, State: client.MerchantActive,
		Scheme: client.Scheme(cmp.Or(in.Scheme, client.SchemeService)), MerchantSettings: in.MerchantSettings,
	}
	var faults api.Faults
	s.checkAllowPrivate(m.Private(), &faults)
	m.Name = cmp.Or(m.Name, m.ID)
	s.setDefaults(&m)
	s.checkMerchant(&m, &faults)
	k := s.keyMaker(m.Scheme, &faults)
	if err := k.check(in.Key, in.ResponseKey, true); err != nil {
		return client.CreatedMerchant{}, err
	}
	if err := faults.Err(); err != nil {
		return client.CreatedMerchant{}, err
	}
	if err := k.make(in.Key, in.ResponseKey, true); err != nil {
		return client.CreatedMerchant{}, err
	}
	m.Key, m.ResponseKey = k.request, k.response
	out := client.CreatedMerchant{Warnings: append(k.warnings, warnings(&m)...)}
	out.PublicKey, out.ResponsePublicKey = k.publicParts()
	out.APIKey, m.APIKey = apiKey(m.APIKey == "", in.APIKey)
	out.CallbackAPIKey, m.CallbackAPIKey = apiKey(m.CallbackAPIKey == "",
		in.CallbackAPIKey) // a merchant that does not check the header ignores it
	made, err := s.Outbox.CreateMerchant(c.R.Context(), m, c.Now)
	if err != nil {
		return client.CreatedMerchant{}, err
	}
	out.Merchant = merchantOf(made)
	return out, nil
}

// checkURLs names what is wrong with the URLs of a merchant. It skips an empty one.
func (s *Server) checkURLs(notify, withdraw string, private bool, faults *api.Faults) {
	for _, of := range []struct{ location, url string }{{"body.notifyUrl", notify}, {"body.withdrawUrl", withdraw}} {
		if of.url == "" {
			continue
		}
		if err := s.CheckURL(of.url, private); err != nil {
			faults.Add(of.location, "is refused: "+err.Error())
		}
	}
	if notify != "" && normalURL(notify) == normalURL(withdraw) {
		faults.Add("body.withdrawUrl", "is the notifyUrl; type 2 needs a URL of its own")
	}
}

// checkAllowPrivate refuses private networks unless the service was started with them: a token of the API must not open
// them.
func (s *Server) checkAllowPrivate(allow bool, faults *api.Faults) {
	if allow && !s.DefaultAllowPrivate {
		faults.Add("body.allowPrivate", "needs a service that was started with --allow-private")
	}
}

// checkMerchant names faults that a schema cannot find.
func (s *Server) checkMerchant(m *outbox.Merchant, faults *api.Faults) {
	s.checkURLs(m.NotifyURL, m.WithdrawURL, m.Private(), faults)
	for i, r := range m.FinalCodes {
		if r.To < r.From {
			faults.Add(fmt.Sprintf("body.finalCodes[%d].to", i), "is below from")
		}
	}
	if _, err := envelope.ParseSigningKeys(m.AnswerKey); err != nil {
		faults.Add("body.answerKey", "is refused: "+err.Error())
	}
	for i, of := range m.ApproveAbove {
		at := fmt.Sprintf("body.approveAbove[%d]", i)
		if of.Symbol != strings.TrimSpace(of.Symbol) || strings.ContainsAny(of.Symbol, " ,") {
			faults.Add(at+".symbol", "has white space or a comma in it")
		}
		if slices.ContainsFunc(m.ApproveAbove[:i], func(other client.AmountLimit) bool {
			return countersign.FoldSymbol(other.Symbol) == countersign.FoldSymbol(of.Symbol)
		}) {
			faults.Add(at+".symbol", "occurs twice, maybe in other letters")
		}
		if !of.Above.IsSet() {
			faults.Add(at+".above", "is missing")
		}
	}
	checkSchedule(m.RetryNotify, "body.retryNotify", faults)
	checkSchedule(m.RetryWithdraw, "body.retryWithdraw", faults)
	if t := m.ContentType; t != "" {
		if _, _, err := mime.ParseMediaType(t); err != nil ||
			strings.ContainsFunc(t, func(r rune) bool { return r < ' ' || r > '~' }) {
			faults.Add("body.contentType", "is not a media type")
		}
	}
}

// warnings returns what is dangerous about settings that are accepted all the same.
func warnings(m *outbox.Merchant) []string {
	if m.Collect == client.CollectAny {
		return []string{"collect is any: where the service was not given the details of a withdrawal, whoever has stolen answers " +
			"of this merchant can have another address or amount confirmed; give details with each withdrawal, or set collect to bound"}
	}
	return nil
}

func checkSchedule(r *client.Schedule, location string, faults *api.Faults) {
	if r == nil {
		return
	}
	for i, d := range r.Delays {
		if d < 0 || d > client.Duration(maxDelay) {
			faults.Add(fmt.Sprintf("%s.delays[%d]", location, i), "is not between 0s and 168h")
		}
	}
	if r.Every != 0 && (r.Every < client.Duration(time.Second) || r.Every > client.Duration(maxDelay)) {
		faults.Add(location+".every", "is not between 1s and 168h")
	}
}

// normalURL returns the same text for different spellings of one URL.
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

// merchantPlace is where a page of merchants begins. Merchants that have failed since At or longer come first: a
// merchant that fails or recovers while somebody reads the pages is missing on none.
type merchantPlace struct {
	At    db.Millis
	Rest  bool // the first are over
	After string
}

const merchantCursor = "%t.%d.%s"

func (p merchantPlace) String() string { return fmt.Sprintf(merchantCursor, p.Rest, p.At, p.After) }

func merchantPlaceOf(cursor string, now db.Millis) (p merchantPlace, err error) {
	if cursor == "" {
		return merchantPlace{At: now}, nil
	}
	_, err = fmt.Sscanf(cursor, merchantCursor, &p.Rest, (*int64)(&p.At), &p.After)
	if err != nil || !outbox.ValidMerchantID(p.After) {
		return p, fmt.Errorf("cursor is %w", db.ErrInvalid)
	}
	return p, nil
}

func (s *Server) merchants(c *api.Call, _ struct{}, limit int, cursor string) (shown []client.Merchant, next string, err error) {
	place, err := merchantPlaceOf(cursor, c.Now)
	if err != nil {
		return nil, "", err
	}
	list, next, err := s.merchantsFrom(c.R.Context(), c.Token.BoundTo(), place, limit)
	if err != nil {
		return nil, "", err
	}
	for _, m := range list {
		shown = append(shown, merchantOf(m))
	}
	return shown, next, s.addHealth(c, shown)
}

// merchantsFrom returns a page that begins at a place. If of is not nil, it has only those merchants.
func (s *Server) merchantsFrom(ctx context.Context, of []string, p merchantPlace,
	limit int) (list []outbox.Merchant, next string, err error) {
	failing, err := s.Lists.FailingMerchants(ctx, false)
	if err != nil {
		return nil, "", err
	}
	first := map[string]bool{}
	for _, f := range failing {
		if f.Since > 0 && db.Millis(f.Since) <= p.At && (of == nil || slices.Contains(of, f.Merchant)) {
			first[f.Merchant] = true
		}
	}
	if !p.Rest {
		if list, err = s.Lists.Merchants(ctx, slices.AppendSeq([]string{}, maps.Keys(first)), p.After, limit+1); err != nil {
			return nil, "", err
		}
		p.Rest, p.After = true, ""
	}
	rest, err := s.Lists.Merchants(ctx, of, p.After, limit+1+len(first))
	if err != nil {
		return nil, "", err
	}
	for _, m := range rest {
		if !first[m.ID] {
			list = append(list, m)
		}
	}
	if len(list) > limit {
		list = list[:limit]
		last := list[limit-1].ID
		next = merchantPlace{At: p.At, Rest: !first[last], After: last}.String()
	}
	return list, next, nil
}

// knownMerchant returns an error unless a token can be bound to the merchant.
func (s *Server) knownMerchant(c *api.Call, id string) error {
	_, err := outbox.MerchantVersion(c.R.Context(), s.Outbox, id)
	return err
}

func (s *Server) merchant(c *api.Call, id string, _ api.None) (client.Merchant, error) {
	m, err := s.Outbox.Merchant(c.R.Context(), id)
	if err != nil {
		return client.Merchant{}, err
	}
	one := []client.Merchant{merchantOf(m)}
	one[0].ServiceSigningKey = s.SigningKey
	err = s.addHealth(c, one)
	return one[0], err
}

func (s *Server) updateMerchant(c *api.Call, id string, in client.MerchantPatch) (client.UpdatedMerchant, error) {
	var would outbox.Merchant
	m, task, err := s.change(c, api.ChangeMerchant, id, in, func(m *outbox.Merchant) error {
		err := s.patched(m, in)
		would = *m
		return err
	})
	return client.UpdatedMerchant{Merchant: merchantOf(m), Warnings: warnings(&would), Task: task}, err
}

// patched changes m and names what is wrong with it afterwards.
func (s *Server) patched(m *outbox.Merchant, in client.MerchantPatch) error {
	if m.Rotation != nil && (in.MerchantSecrets != (client.MerchantSecrets{}) || in.Clears("callbackApiKey")) {
		return outbox.ErrRotating
	}
	in.Apply(&m.MerchantSettings)
	if in.APIKey != "" {
		m.APIKey = countersign.APIKey(in.APIKey)
	}
	if in.CallbackAPIKey != "" || in.Clears("callbackApiKey") {
		m.CallbackAPIKey = countersign.APIKey(in.CallbackAPIKey)
	}
	s.setDefaults(m)
	var faults api.Faults
	s.checkAllowPrivate(in.Private(), &faults)
	s.checkMerchant(m, &faults)
	return faults.Err()
}

// setDefaults gives the settings of m that are zero their defaults.
func (s *Server) setDefaults(m *outbox.Merchant) {
	if m.AllowPrivate == nil {
		m.AllowPrivate = &s.DefaultAllowPrivate
	}
	m.SetDefaults()
}

func (s *Server) pauseMerchant(c *api.Call, id string, in client.Pause) (client.Merchant, error) {
	return s.setState(c, id, client.MerchantPaused, cmp.Or(in.Reason, defaultPauseReason))
}

func (s *Server) resumeMerchant(c *api.Call, id string, in client.Resume) (client.Merchant, error) {
	m, err := s.setState(c, id, client.MerchantActive, "")
	if err == nil && in.Resend {
		_, err = s.Outbox.ResendMatching(c.R.Context(), nil,
			client.CallbackFilter{Merchant: m.ID, State: client.CallbackPending}, false, c.Now)
	}
	return m, err
}

func (s *Server) setState(c *api.Call, id string, state client.MerchantState, reason string) (client.Merchant, error) {
	m, err := s.Outbox.SetMerchantState(c.R.Context(), id, state, reason, c.Now)
	return merchantOf(m), err
}

// merchantOf returns m without its secrets.
func merchantOf(m outbox.Merchant) client.Merchant {
	request, response := m.Of(client.KeyRequest), m.Of(client.KeyResponse)
	apiKey, callbackKey := m.Of(client.KeyAPI), m.Of(client.KeyCallbackAPI)
	return client.Merchant{
		ID: m.ID, MerchantSettings: m.MerchantSettings, State: m.State, PausedReason: m.PausedReason, Scheme: m.Scheme,
		Fingerprint: request.Fingerprint, ResponseFingerprint: response.Fingerprint, KeySince: request.Since,
		ResponseKeySince: response.Since, APIKeySince: apiKey.Since, CallbackAPIKeySince: callbackKey.Since,
		APIKeyFingerprint: apiKey.Fingerprint, CallbackAPIKeyFingerprint: callbackKey.Fingerprint, Rotation: rotationOf(m),
		Version: m.Version, Created: api.TimeOf(m.Created), Updated: api.TimeOf(m.Updated),
	}
}

// addHealth adds to each merchant of list its health.
func (s *Server) addHealth(c *api.Call, list []client.Merchant) error {
	ids := make([]string, len(list))
	for i, m := range list {
		ids[i] = m.ID
	}
	if len(ids) == 0 {
		return nil
	}
	all, err := s.Lists.Health(c.R.Context(), ids)
	for i := range list {
		list[i].Health = all[list[i].ID]
	}
	return err
}

// rotationOf returns the state of the replacement of m's keys.
func rotationOf(m outbox.Merchant) *client.Rotation {
	r := m.Rotation
	if r == nil {
		return nil
	}
	out := &client.Rotation{State: client.RotationStaged, Staged: r.Staged, Others: api.OrEmpty(m.Others())}
	if r.Active {
		out.State, out.Activated, out.Until = client.RotationActive, r.Activated, r.Until()
	}
	return out
}
