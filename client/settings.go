package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MerchantSettings are the settings of a merchant that anybody with a token may read. Each
// field is the one description of its setting: from its name, its type and its tags come the
// member of the API with its bounds, its place in the service's database, the flags of
// "countersign merchants", the rows of the console, and the records of the audit log.
//
// Beside those of JSON Schema the tags are: initial, the default, and none, the words for it; within,
// the bounds of a Duration; money, which lets a change wait for an approver; label, the console's name
// for it; flag, that of the command line.
type MerchantSettings struct {
	Name          string       `json:"name,omitempty" none:"the id" clear:"no" minLength:"1" maxLength:"200" label:"Name" doc:"name for people, 1 to 200 characters"`
	NotifyURL     string       `json:"notifyUrl,omitempty" required:"true" minLength:"1" maxLength:"2048" money:"yes" label:"Notify URL" doc:"where callbacks of every type but 2 are posted, of at most 2,048 characters" example:"https://merchant.example/callbacks/notify"`
	WithdrawURL   string       `json:"withdrawUrl,omitempty" required:"true" minLength:"1" maxLength:"2048" money:"yes" label:"Withdraw URL" doc:"where callbacks of type 2 are posted, of at most 2,048 characters; differs from notifyUrl" example:"https://merchant.example/callbacks/withdraw"`
	ConfirmWithin Duration     `json:"confirmWithin,omitzero" initial:"1h" within:"10s to 168h" label:"Confirm within" doc:"how long a withdrawal awaits its confirmation, 10s to 168h"`
	ReleaseWithin Duration     `json:"releaseWithin,omitzero" initial:"72h" within:"1m to 8760h" label:"Release within" doc:"how long a withdrawal that is confirmed from now on can be released before it lapses, 1m to 8760h"`
	Concurrency   int          `json:"concurrency,omitempty" initial:"64" minimum:"1" maximum:"1000" label:"Exchanges at once" doc:"exchanges at once in each lane, 1 to 1,000"`
	RatePerSecond float64      `json:"ratePerSecond,omitempty" none:"no limit" minimum:"0.01" maximum:"100000" label:"Callbacks a second" doc:"callbacks a second in each lane, 0.01 to 100,000"`
	FinalCodes    CodeRanges   `json:"finalCodes,omitzero" initial:"[]" none:"none" maxItems:"50" nullable:"false" money:"yes" label:"Final errCodes" doc:"errCodes that refuse finally, at most 50 ranges, as the merchant says; 2000-2999 of one that follows PROTOCOL.md, Error codes. After any other errCode it is asked again"`
	RetryNotify   *Schedule    `json:"retryNotify,omitempty" none:"the default" label:"Schedule" doc:"when callbacks of every type but 2 are tried again"`
	RetryWithdraw *Schedule    `json:"retryWithdraw,omitempty" none:"the default" label:"Schedule of questions" doc:"when callbacks of type 2 are tried again; it ends with the deadline of the withdrawal"`
	ContentType   string       `json:"contentType,omitempty" initial:"application/x-www-form-urlencoded" minLength:"1" maxLength:"200" label:"Content type" doc:"Content-Type of the requests, of at most 200 characters"`
	Body          BodyForm     `json:"body,omitempty" initial:"bare" label:"Body" doc:"how the sealed text is written in the body of a request"`
	Collect       Collect      `json:"collect,omitempty" initial:"bound" money:"yes" label:"Without an order" doc:"what an answer must show that says the details of a withdrawal, where the service was not given them. any lets a thief of answers put other details in, and is warned of"`
	ApproveAbove  AmountLimits `json:"approveAbove,omitempty" none:"no amount" maxItems:"50" minItems:"1" nullable:"false" money:"yes" label:"A person approves above" doc:"the amounts above which a withdrawal is released only after a person of the provider approved it, 1 to 50 currencies; a text has them as USDT 10000, BTC 0.5"`
	AnswerKey     string       `json:"answerKey,omitempty" none:"answers are not signed" maxLength:"256" money:"yes" label:"Signed answers" doc:"the public part of the merchant's signing key, as gateway --check prints it: an answer that it did not sign decides nothing, and requests are signed too. Two keys with a comma between them while the merchant replaces its key"`
	AllowPrivate  *bool        `json:"allowPrivate,omitempty" initial:"false" none:"as the service was started" money:"yes" label:"Private networks" doc:"whether the URLs may lead to private networks; true needs a service that was started with --allow-private"`
}

// MerchantSecrets are the settings of a merchant that nobody reads.
type MerchantSecrets struct {
	APIKey         Secret `json:"apiKey,omitempty" none:"the service makes one and shows it once" clear:"no" pattern:"^[!-~]{1,256}$" patternDescription:"1 to 256 visible ASCII characters" money:"yes" label:"API key of responses" doc:"the key that the merchant's responses carry, 1 to 256 visible ASCII characters"`
	CallbackAPIKey Secret `json:"callbackApiKey,omitempty" none:"for a new merchant the service makes one and shows it once, else there is no such header" pattern:"^[!-~]{1,256}$" patternDescription:"1 to 256 visible ASCII characters" money:"yes" label:"X-API-KEY of requests" doc:"the value of the header X-API-KEY of requests, 1 to 256 visible ASCII characters"`
}

// MerchantPatch changes the settings that are not zero. Those that Clear names go back to
// their defaults.
type MerchantPatch struct {
	MerchantSettings
	MerchantSecrets
	// Clear are names of members, such as ratePerSecond.
	Clear []string `json:"-"`
}

// LogValue keeps the secrets out of logs.
func (MerchantPatch) LogValue() slog.Value { return slog.StringValue("merchant patch") }

// MarshalJSON writes null for what is cleared.
func (p MerchantPatch) MarshalJSON() ([]byte, error) {
	type plain MerchantPatch
	b, err := json.Marshal(plain(p))
	if err != nil || len(p.Clear) == 0 {
		return b, err
	}
	var members map[string]any
	if err := json.Unmarshal(b, &members); err != nil {
		return nil, err
	}
	for _, name := range p.Clear {
		members[name] = nil
	}
	return json.Marshal(members)
}

// UnmarshalJSON reads null as what is cleared.
func (p *MerchantPatch) UnmarshalJSON(b []byte) error {
	type plain MerchantPatch
	if err := json.Unmarshal(b, (*plain)(p)); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	err := json.Unmarshal(b, &members)
	p.Clear = nil
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if string(members[name]) == "null" {
			p.Clear = append(p.Clear, name)
		}
	}
	return err
}

// Clears reports whether p clears the setting.
func (p *MerchantPatch) Clears(name string) bool { return slices.Contains(p.Clear, name) }

// Apply changes s as p says. What is cleared becomes zero, until SetDefaults.
func (p *MerchantPatch) Apply(s *MerchantSettings) {
	to, from := reflect.ValueOf(s).Elem(), reflect.ValueOf(p.MerchantSettings)
	for i := range to.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		} else if p.Clears(jsonName(to.Type().Field(i))) {
			to.Field(i).SetZero()
		}
	}
}

// SetDefaults sets the settings that are zero to their defaults.
func (s *MerchantSettings) SetDefaults() {
	for _, of := range settings {
		if of.Default == "" {
			continue
		}
		if v := reflect.ValueOf(s).Elem().FieldByName(of.field); v.IsZero() {
			if err := of.parse(v, of.Default); err != nil {
				panic(err) // a test reads every default
			}
		}
	}
}

// Private reports whether the URLs may lead to private networks.
func (s *MerchantSettings) Private() bool { return s.AllowPrivate != nil && *s.AllowPrivate }

// Setting describes a setting of a merchant.
type Setting struct {
	Name     string // of its member in the API
	Label    string // for people
	Doc      string // what it is
	Default  string // what applies where nothing is said, as text. Empty: nothing does
	None     string // the words for that; never empty unless Required
	Required bool   // a new merchant needs it
	Clears   bool   // a change may set it back to its default; else every merchant has one
	Money    bool   // a change may move money, and waits for an approver where there is one
	Secret   bool
	Values   []string // all that it may be. Nil: anything of its type
	Type     reflect.Type
	Longest  int // characters of a text; 0: no bound

	field string
}

var settings = append(settingsOf(reflect.TypeFor[MerchantSettings]()),
	settingsOf(reflect.TypeFor[MerchantSecrets]())...)

// Settings describes the settings of a merchant, in the order of forms: those that are
// shown, and then the secrets.
func Settings() []Setting { return slices.Clone(settings) }

func settingsOf(t reflect.Type) (list []Setting) {
	for i := range t.NumField() {
		f := t.Field(i)
		s := Setting{Name: jsonName(f), Label: f.Tag.Get("label"), Doc: f.Tag.Get("doc"), Default: f.Tag.Get("initial"),
			None: f.Tag.Get("none"), Required: f.Tag.Get("required") == "true", Money: f.Tag.Get("money") == "yes", Type: f.Type,
			field: f.Name}
		s.Longest, _ = strconv.Atoi(f.Tag.Get("maxLength"))
		if s.Type.Kind() == reflect.Pointer {
			s.Type = s.Type.Elem()
		}
		s.Secret = s.Type == reflect.TypeFor[Secret]()
		s.Clears = !s.Required && f.Tag.Get("clear") != "no"
		if s.None == "" {
			s.None = s.Default
		}
		s.Values = ValuesOf(s.Type, AtBoth)
		list = append(list, s)
	}
	return list
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// Text returns the setting of a merchant, such as a Merchant, as people write it. Empty: there
// is none, or it is secret.
func (s Setting) Text(of any) string {
	v := reflect.Indirect(reflect.ValueOf(of)).FieldByName(s.field)
	if s.Secret || !v.IsValid() || v.IsZero() {
		return ""
	}
	v = reflect.Indirect(v)
	switch v := v.Interface().(type) {
	case Duration:
		return zeros.ReplaceAllString(v.String(), "$1") // 1h0m0s is 1h
	case fmt.Stringer:
		return v.String()
	}
	if v.Kind() == reflect.String {
		return v.String()
	}
	b, err := json.Marshal(v.Interface())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

var zeros = regexp.MustCompile(`([hm])(?:0m)?0s$`)

// Set reads text as people write it into the setting of to, which points to a NewMerchant or
// a MerchantPatch. An empty text clears the setting of a patch.
func (s Setting) Set(to any, text string) error {
	if p, ok := to.(*MerchantPatch); ok && text == "" && s.Clears {
		p.Clear = append(p.Clear, s.Name)
		return nil
	}
	if text == "" {
		return fmt.Errorf("%s is empty", s.Name)
	}
	return s.parse(reflect.ValueOf(to).Elem().FieldByName(s.field), text)
}

func (s Setting) parse(v reflect.Value, text string) error {
	into := reflect.New(s.Type)
	quoted, _ := json.Marshal(text)
	if json.Unmarshal(quoted, into.Interface()) != nil &&
		(text == "null" || json.Unmarshal([]byte(SettingJSON(s.Type, text)), into.Interface()) != nil) {
		return fmt.Errorf("%s is not %s", s.Name, cmp.Or(forms[s.Type.Kind()], "the JSON of this setting"))
	}
	if v.Kind() != reflect.Pointer {
		into = into.Elem()
	}
	v.Set(into)
	return nil
}

// forms says what text a setting of a kind is.
var forms = map[reflect.Kind]string{reflect.Bool: "true or false", reflect.Int: "a whole number",
	reflect.Float64: "a number", reflect.Int64: "a length of time: write 90s, 10m or 2h"}

// SettingJSON returns the JSON of a setting of type t that a person wrote as a text, such as
// 2000-2999 for codes and USDT 10000 for amounts. Any other text stays as it is.
func SettingJSON(t reflect.Type, text string) string {
	switch t {
	case reflect.TypeFor[CodeRanges]():
		return codesJSON(text)
	case reflect.TypeFor[AmountLimits]():
		return limitsJSON(text)
	}
	return text
}

// String writes ranges as people do: 2000-2999, 5001; none.
func (c CodeRanges) String() string {
	if len(c) == 0 {
		return "none"
	}
	var list []string
	for _, r := range c {
		text := strconv.FormatInt(r.From, 10)
		if r.To != r.From {
			text += "-" + strconv.FormatInt(r.To, 10)
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// codesJSON returns the JSON of what CodeRanges.String writes. JSON stays as it is, and of anything else no JSON comes.
func codesJSON(text string) string {
	if text == "none" {
		return "[]"
	}
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		return text
	}
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		from, to, is := strings.Cut(part, "-")
		if !is {
			to = from
		}
		list = append(list, fmt.Sprintf(`{"from":%s,"to":%s}`, from, to))
	}
	return "[" + strings.Join(list, ",") + "]"
}
