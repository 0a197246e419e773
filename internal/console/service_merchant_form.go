package console

import (
	"strconv"
	"time"

	"countersign/client"
)

// merchantForm is a form of a merchant.
type merchantForm struct {
	ID     string // of the merchant that changes; empty: a new one
	Values map[string]string
}

// Bodies are the forms of a body, to choose from.
func (merchantForm) Bodies() []client.BodyForm {
	return []client.BodyForm{client.BodyBare, client.BodyData, client.BodyJSON}
}

func (v *visit) merchantNew() error {
	return v.render("merchant_new", "New merchant", merchantForm{Values: v.values(map[string]string{"scheme": "service", "bits": "2048"})})
}

func (v *visit) merchantMake() error {
	made, err := v.makeMerchant()
	if err != nil {
		return err
	}
	return v.showOnce(once{
		Title: "Hand over to " + made.ID, Back: merchantPath(made.ID), Warnings: made.Warnings,
		Items: handOver(made.PublicKey, made.ResponsePublicKey, made.APIKey.Reveal(), ""),
	})
}

func (v *visit) makeMerchant() (made client.CreatedMerchant, err error) {
	m := client.NewMerchant{
		ID: v.form("id"), Name: v.form("name"), NotifyURL: v.form("notifyUrl"), WithdrawURL: v.form("withdrawUrl"),
		Scheme: client.Scheme(v.form("scheme")), CallbackAPIKey: client.Secret(v.form("callbackApiKey")), Collect: client.Collect(v.form("collect")),
	}
	_, bits, err := v.keyChoice()
	if err != nil {
		return made, err
	}
	if m.Scheme == client.SchemeService {
		m.Key = &client.KeySpec{Bits: bits}
	} else {
		m.Key = &client.KeySpec{PublicKey: v.form("publicKey")}
		m.ResponseKey = &client.KeySpec{Bits: bits}
	}
	if m.ConfirmWithin, err = v.duration("confirmWithin"); err != nil {
		return made, err
	}
	if m.ReleaseWithin, err = v.duration("releaseWithin"); err != nil {
		return made, err
	}
	if m.Concurrency, err = v.whole("concurrency"); err != nil {
		return made, err
	}
	if m.RatePerSecond, err = v.rate("ratePerSecond"); err != nil {
		return made, err
	}
	return v.service.CreateMerchant(v.r.Context(), m)
}

// The readers of fields give 0 for an empty one.

func (v *visit) duration(name string) (client.Duration, error) {
	text := v.form(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, refuse(name + " is no span of time; write it like 90s, 10m or 2h")
	}
	return client.Duration(d), nil
}

func (v *visit) whole(name string) (int, error) {
	text := v.form(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, refuse(name + " is no whole number")
	}
	return n, nil
}

func (v *visit) rate(name string) (float64, error) {
	text := v.form(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, refuse(name + " is no number")
	}
	return n, nil
}

// valuesOf are a merchant's settings as a form has them.
func valuesOf(m client.Merchant) map[string]string {
	values := map[string]string{
		"name": m.Name, "notifyUrl": m.NotifyURL, "withdrawUrl": m.WithdrawURL, "concurrency": strconv.Itoa(m.Concurrency),
		"confirmWithin": spanText(m.ConfirmWithin), "releaseWithin": spanText(m.ReleaseWithin), "contentType": m.ContentType, "body": string(m.Body), "collect": string(m.Collect),
		"version": strconv.FormatInt(m.Version, 10),
	}
	if m.RatePerSecond != 0 {
		values["ratePerSecond"] = strconv.FormatFloat(m.RatePerSecond, 'g', -1, 64)
	}
	if m.AllowPrivate {
		values["allowPrivate"] = "on"
	}
	return values
}

func (v *visit) merchantEdit() error {
	m, err := v.service.Merchant(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	return v.render("merchant_change", "Change "+m.ID, merchantForm{ID: m.ID, Values: v.values(valuesOf(m))})
}

func (v *visit) merchantChange() error {
	id := v.r.PathValue("id")
	m, err := v.service.Merchant(v.r.Context(), id)
	if err != nil {
		return err
	}
	waits, err := v.changeMerchant(m)
	if err != nil {
		return err
	}
	if waits != nil {
		return v.done(merchantPath(id), "waits")
	}
	return v.done(merchantPath(id), "changed")
}

// changeMerchant sends the members that differ from m.
func (v *visit) changeMerchant(m client.Merchant) (*client.ChangeEntry, error) {
	was := valuesOf(m)
	if v.form("version") != was["version"] {
		return nil, refuse("somebody else has changed the merchant meanwhile; open the form again")
	}
	var p client.MerchantPatch
	changed := false
	differs := func(name string) bool {
		is := v.form(name) != was[name]
		changed = changed || is
		return is
	}
	for name, member := range map[string]*client.Patch[string]{
		"name": &p.Name, "notifyUrl": &p.NotifyURL, "withdrawUrl": &p.WithdrawURL, "contentType": &p.ContentType,
	} {
		if differs(name) {
			*member = client.Change(v.form(name))
		}
	}
	if differs("body") {
		p.Body = client.Change(client.BodyForm(v.form("body")))
	}
	if differs("collect") {
		p.Collect = client.Change(client.Collect(v.form("collect")))
	}
	if differs("allowPrivate") {
		p.AllowPrivate = client.Change(v.form("allowPrivate") != "")
	}
	var err error
	if differs("concurrency") {
		if p.Concurrency, err = changeOf(v.whole("concurrency")); err != nil {
			return nil, err
		}
	}
	if differs("ratePerSecond") {
		if p.RatePerSecond, err = changeOf(v.rate("ratePerSecond")); err != nil {
			return nil, err
		}
	}
	if differs("confirmWithin") {
		if p.ConfirmWithin, err = changeOf(v.duration("confirmWithin")); err != nil {
			return nil, err
		}
	}
	if differs("releaseWithin") {
		if p.ReleaseWithin, err = changeOf(v.duration("releaseWithin")); err != nil {
			return nil, err
		}
	}
	for name, member := range map[string]*client.Patch[client.Secret]{"apiKey": &p.APIKey, "callbackApiKey": &p.CallbackAPIKey} {
		if secret := v.form(name); secret != "" {
			*member, changed = client.Change(client.Secret(secret)), true
		}
	}
	if !changed {
		return nil, refuse("nothing was changed in the form")
	}
	made, err := v.service.UpdateMerchant(v.r.Context(), m.ID, p)
	return made.Change, err
}

// changeOf sets a member to a number, or back to its default if the field is empty.
func changeOf[T comparable](value T, err error) (client.Patch[T], error) {
	var zero T
	switch {
	case err != nil:
		return client.Patch[T]{}, err
	case value == zero:
		return client.Clear[T](), nil
	}
	return client.Change(value), nil
}
