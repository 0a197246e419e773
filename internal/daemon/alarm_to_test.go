package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nicholas-fedor/shoutrrr/pkg/format"
	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/signed"
)

// TestCheckAlarmTo: what is no destination is refused with an error that says what to do and has
// nothing of the secret.
func TestCheckAlarmTo(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "the services are bark, discord,",
		"xoxb-geheim-token":                "the services are",
		"https://hooks.slack.com/T/geheim": "the services are",
		"logger://":                        "the services are",
		"geheim://x":                       "the services are",
		"slack://geheim":                   "slack:// is not of the form",
		"telegram://geheim@telegram":       "telegram:// is not of the form",
		"pagerduty:///geheim":              "pagerduty:// is not of the form",
		"discord://geheim":                 "discord:// is not of the form",
		"matrix://":                        "matrix:// is not of the form",
		"smtp://geheim%zz@mail":            "smtp:// is not of the form",
		"generic+https://host/\x00geheim":  "generic:// is not of the form",
		"generic://127.0.0.1/?geheim=%zz":  "", // a query that it takes as it is
		"smtp://u:geheim@mail.example:587/?from=a@b.example&to=c@d.example":                      "",
		"slack://hook:AAAAAAAAA-BBBBBBBBB-123456789123456789123456@webhook":                      "",
		"telegram://123456789:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA@telegram?chats=@channel,-1001": "",
		"pagerduty:///0123456789abcdef0123456789abcdef":                                          "",
		"matrix://user:geheim@matrix.example/":                                                   "", // it would sign in
	} {
		err := CheckAlarmTo(client.Secret(text))
		switch {
		case (err == nil) != (want == ""):
			t.Errorf("%q: %v, want %q", text, err, want)
		case err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim")):
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// hostile is a subject that would call everybody, lead to an address, and end a header.
const hostile = "<!channel> @everyone [a](https://evil.example/x) <b>*bold*</b> `x`\r\nBcc: all@evil.example\u202egnp.exe"

func hostilePost(step int64) db.AlarmPost {
	a := db.Alarm{Seq: 17, Of: "shop", Kind: client.AlarmAnswerDiffers, Subject: hostile, At: 1_700_000_000_000, Last: 1_700_000_060_000, Number: 400,
		Examples: []string{hostile, "shop.2"}, Ended: 1_700_000_090_000, EndedText: "It is over."}
	return db.AlarmPost{Alarm: a, Step: step, At: a.At}
}

// TestAlarmText: the text says what happened and what helps, and nothing that others wrote stays
// what a chat or a mail acts on.
func TestAlarmText(t *testing.T) {
	for step, want := range map[int64][]string{
		1:   {"URGENT countersign service: answer differs, shop", "Alarm 17 was raised 400 times at 2023-11-14 22:13:20 UTC.", client.AlarmAnswerDiffers.Do()},
		100: {"URGENT countersign service: answer differs, shop, 400 times", "since 2023-11-14 22:13:20 UTC, last at 2023-11-14 22:14:20 UTC."},
		0:   {"countersign service: answer differs, shop, ended", "Alarm 17 ended at 2023-11-14 22:14:50 UTC: It is over."},
	} {
		title, text := alarmText("service", hostilePost(step))
		if title != want[0] || strings.ContainsAny(title, "\r\n") {
			t.Errorf("title %q", title)
		}
		for _, part := range want[1:] {
			if !strings.Contains(text, part) {
				t.Errorf("%q lacks %q", text, part)
			}
		}
		_, about, _ := strings.Cut(text, "About: ")
		about, _, _ = strings.Cut(about, "\n")
		if strings.ContainsAny(about, "<>@[]*`\r\u202e") || strings.Contains(about, "://e") || !strings.Contains(about, "shop.2") {
			t.Errorf("about %q", about)
		}
	}
}

// TestAlarmToTells: a chat gets one message for 400 alarms, then one that they grew, then one that
// they ended; what it refuses comes again, and its token is in no line of the log.
func TestAlarmToTells(t *testing.T) {
	var mu sync.Mutex
	var got []string
	refuse := true
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if refuse {
			refuse = false
			http.Error(w, "no "+r.URL.Path, http.StatusForbidden)
			return
		}
		got = append(got, r.URL.Path+" "+strings.ReplaceAll(string(body), "\n", " | "))
	}))
	defer app.Close()
	to := client.Secret("generic+" + app.URL + "/hooks/geheim-token?disabletls=yes")
	var log bytes.Buffer
	dir := t.TempDir()
	s, err := NewService(ServiceConfig{Storage: Storage{Dir: filepath.Join(dir, "service")}, Listen: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(&log, nil)), Alarms: AlarmPosting{To: []client.Secret{to}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Open(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	raise := func(n int) {
		t.Helper()
		err := s.Outbox().Write(ctx, func(ctx context.Context, x *db.Tx) error {
			var list []db.Alarm
			for i := range n {
				list = append(list, db.Alarm{Of: "shop", Kind: client.AlarmWrongAPIKey, Subject: fmt.Sprint("shop.", i), At: db.MillisOf(time.Now())})
			}
			return db.RaiseAlarms(ctx, x, list)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	until := func(n int) []string {
		t.Helper()
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			mu.Lock()
			list := slices.Clone(got)
			mu.Unlock()
			if len(list) >= n {
				return list
			}
			if time.Since(began) > 5*time.Minute {
				t.Fatalf("told %q, want %d", list, n)
			}
		}
	}
	raise(400)
	until(1)
	raise(400)
	raise(300)
	until(2)
	if err := s.Outbox().EndStanding(ctx, []db.Alarm{{Of: "shop", Kind: client.AlarmWrongAPIKey}}, db.MillisOf(time.Now())); err != nil {
		t.Fatal(err)
	}
	list := until(3)
	for i, want := range []string{"wrong api key, shop | Alarm 1 was raised 400 times", "wrong api key, shop, 1100 times | Alarm 1 was raised", "wrong api key, shop, ended | Alarm 1 ended"} {
		if !strings.HasPrefix(list[i], "/hooks/geheim-token countersign service: "+want) {
			t.Errorf("message %d: %q, want %q", i, list[i], want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "geheim") || !strings.Contains(text, "alarm not posted") || !strings.Contains(text, "alarm-to 1 generic") {
		t.Errorf("log:\n%s", text)
	}
	if len(until(3)) != 3 {
		t.Errorf("told %q", list)
	}
}

// TestAlarmToMail: a mail has one subject, no further header, and the text as it is.
func TestAlarmToMail(t *testing.T) {
	got := make(chan string, 1)
	addr := mailServer(t, got)
	c, err := newChat(client.Secret("smtp://"+addr+"/?from=countersign@example.com&to=ops@example.com&encryption=None&auth=None&usestarttls=no"), "x")
	if err != nil {
		t.Fatal(err)
	}
	if result, err := c.send("gateway", hostilePost(1)); result != signed.Done {
		t.Fatalf("%s, %v", result, err)
	}
	m, err := mail.ReadMessage(strings.NewReader(<-got))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(m.Body)
	if m.Header.Get("Subject") != "URGENT countersign gateway: answer differs, shop" || m.Header.Get("Bcc") != "" || !strings.Contains(string(body), "Alarm 17 was raised 400 times") || strings.Contains(string(body), "\nBcc:") {
		t.Errorf("%v\n%s", m.Header, body)
	}
}

// mailServer takes one mail on the loopback.
func mailServer(t *testing.T, got chan<- string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		r := bufio.NewReader(c)
		say := func(line string) { fmt.Fprint(c, line+"\r\n") }
		say("220 test")
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			switch word, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(line)), " "); word {
			case "DATA":
				say("354 go on")
				var text strings.Builder
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					if line == ".\r\n" {
						break
					}
					text.WriteString(line)
				}
				got <- text.String()
				say("250 taken")
			case "QUIT":
				say("221 bye")
				return
			default:
				say("250 ok")
			}
		}
	}()
	return l.Addr().String()
}

// TestAlarmToPager: a pager is told that an alarm ended as the end of its incident.
func TestAlarmToPager(t *testing.T) {
	c, err := newChat("pagerduty:///0123456789abcdef0123456789abcdef", "abc")
	if err != nil {
		t.Fatal(err)
	}
	told := &recorder{Service: c.service}
	c.service = told
	for _, step := range []int64{1, 0} {
		if result, err := c.send("service", hostilePost(step)); result != signed.Done {
			t.Fatal(result, err)
		}
	}
	if p := told.params; p[0]["dedup_key"] != "countersign abc 17" || p[1]["dedup_key"] != "countersign abc 17" || p[0]["action"] != "" || p[1]["action"] != "resolve" {
		t.Errorf("%v", p)
	}
}

// recorder writes down what a service is given.
type recorder struct {
	types.Service
	params []types.Params
}

func (r *recorder) Send(_ string, p *types.Params) error {
	r.params = append(r.params, *p)
	return nil
}

// TestAlarmToServices: the table has every service, and gives a title to those that take one:
// most of the others fail with it before they post.
func TestAlarmToServices(t *testing.T) {
	var known router.ServiceRouter
	for _, scheme := range known.ListServices() {
		titled, is := toServices[scheme]
		if scheme == "logger" || scheme == "hangouts" { // the second is googlechat
			continue
		}
		if !is {
			t.Errorf("%s is not in the table", scheme)
		}
		s, err := known.NewService(scheme)
		if err != nil {
			t.Fatal(err)
		}
		fields := format.NewPropKeyResolver(format.GetServiceConfig(s))
		if takes := slices.Contains(fields.QueryFields(), "title"); takes != titled && scheme != "generic" { // its title is for templates
			t.Errorf("%s takes a title: %v", scheme, takes)
		}
	}
}

// TestAlarmToHides: of what an error shows of the URL nothing is left.
func TestAlarmToHides(t *testing.T) {
	c := &chat{scheme: "telegram", url: "telegram://123456789:AAgeheim-Token_x@telegram?chats=@myteam%2Bx"}
	for text, want := range map[string]string{
		`Post "https://api.telegram.org/bot123456789:AAgeheim-Token_x/sendMessage": no`: `Post "https://api.telegram.org/bot…:…-…_x/sendMessage": no`,
		"chat @MYTEAM+x not found\r\n": "chat @…+x not found  ",
	} {
		if got := c.without(errors.New(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	cut := c.without(&url.Error{Op: "Post", URL: "https://api.telegram.org/geheim", Err: errors.New("no route")})
	if cut != "no answer: no route" {
		t.Errorf("%q", cut)
	}
}
