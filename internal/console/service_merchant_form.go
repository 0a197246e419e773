package console

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"countersign/client"
)

// merchantForm is a form for a merchant.
type merchantForm struct {
	ID     string // of the merchant that changes; empty: a new one
	Values map[string]string
}

// settingRow is the row of a setting in a form.
type settingRow struct {
	client.Setting
	Value string
	New   bool // of a new merchant
}

// Hint returns what the setting is and what an empty field means.
func (r settingRow) Hint() string {
	switch {
	case r.Needed():
		return r.Doc
	case r.Secret && !r.New:
		return r.Doc + "; empty: as it is"
	}
	return r.Doc + "; empty: " + r.None
}

// Needed reports whether the field must not be empty.
func (r settingRow) Needed() bool { return !r.Clears && !r.Secret }

// Input returns how the value is entered: the attribute type, or select or checkbox.
func (r settingRow) Input() string {
	switch {
	case r.Type.Kind() == reflect.Bool:
		return "checkbox"
	case r.Values != nil:
		return "select"
	case r.Secret:
		return "password"
	case strings.HasSuffix(r.Name, "Url"):
		return "url"
	}
	return "text"
}

// Rows returns the rows of the settings that every merchant has, or those of the others.
func (f merchantForm) Rows(required bool) (rows []settingRow) {
	for _, s := range client.Settings() {
		if r := (settingRow{s, f.Values[s.Name], f.ID == ""}); r.Needed() == required {
			rows = append(rows, r)
		}
	}
	return rows
}

func (v *visit) merchantNew() error {
	return v.render("merchant_new", "New merchant",
		merchantForm{Values: v.values(map[string]string{"scheme": "service", "bits": "2048"})})
}

func (v *visit) merchantMake() error {
	m := client.NewMerchant{ID: v.form("id"), Scheme: client.Scheme(v.form("scheme"))}
	bits, err := v.number("bits", "size of the key")
	if err != nil {
		return err
	}
	if m.Scheme == client.SchemeService {
		m.Key = &client.KeySpec{Bits: bits}
	} else {
		m.Key = &client.KeySpec{PublicKey: v.form("publicKey")}
		m.ResponseKey = &client.KeySpec{Bits: bits}
	}
	for _, s := range client.Settings() {
		if text := v.form(s.Name); text != "" {
			if err := s.Set(&m, text); err != nil {
				return refuse(err.Error())
			}
		}
	}
	made, err := send[client.CreatedMerchant](v, "/v1/merchants", m)
	if err != nil {
		return err
	}
	page := once{Back: "/console/merchants/" + made.ID, Warnings: made.Warnings, Items: []onceItem{
		{"Request key", "opens what the service sends", "service.b64", made.PublicKey},
		{"Response key", "seals the merchant's answers", "response.b64", made.ResponsePublicKey},
		{"API key", "the member apiKey of every response", "api.key", made.APIKey.Reveal()},
		{"Callback API key", "the header X-API-KEY of every request", "callback-api.key", made.CallbackAPIKey.Reveal()},
	}}
	return v.render("once", "Hand over to "+made.ID, page)
}

// settingsOf returns a merchant's settings as the values of a form.
func settingsOf(m client.Merchant) map[string]string {
	values := map[string]string{"version": strconv.FormatInt(m.Version, 10)}
	for _, s := range client.Settings() {
		values[s.Name] = s.Text(m)
	}
	return values
}

func (v *visit) merchantEdit() error {
	m := fetch[client.Merchant](v, client.Path("merchants", v.r.PathValue("id")))
	return v.render("merchant_change", "Change "+m.ID, merchantForm{ID: m.ID, Values: v.values(settingsOf(m))})
}

// merchantChange sends the members that differ from the merchant's.
func (v *visit) merchantChange() error {
	path := client.Path("merchants", v.r.PathValue("id"))
	m, err := read[client.Merchant](v, path)
	if err != nil {
		return err
	}
	was := settingsOf(m)
	if v.form("version") != was["version"] {
		return refuse("somebody else has changed the merchant meanwhile; open the form again")
	}
	var p client.MerchantPatch
	changed := false
	for _, s := range client.Settings() {
		text := v.form(s.Name)
		if text == "" && s.Type.Kind() == reflect.Bool {
			text = "false" // a box that is not ticked
		}
		if text == was[s.Name] {
			continue
		}
		if err := s.Set(&p, text); err != nil {
			return refuse(err.Error())
		}
		changed = true
	}
	if !changed {
		return refuse("nothing was changed in the form")
	}
	in, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return v.change(v.above(), "changed", http.MethodPatch, path, in)
}
