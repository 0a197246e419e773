package daemon

import (
	"encoding/json"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/db"
)

// hostile is a subject that would call everybody, lead to an address, and end a header.
const hostile = "<!channel> @everyone [a](https://evil.example/x) <b>*bold*</b> `x`\r\nBcc: all@evil.example\u202egnp.exe"

func hostilePost(kind client.AlarmKind, event client.AlarmMessage) db.AlarmPost {
	a := client.Alarm{Seq: 17, Merchant: "shop", Kind: kind, Subject: hostile, First: 1_700_000_000_000, Last: 1_700_000_060_000, Number: 400,
		Examples: []string{hostile, "shop.2"}, Ended: 1_700_000_090_000, EndedText: "It is over."}
	return db.AlarmPost{Alarm: a, Event: event, Step: 100}
}

// TestAlarmText: the text says what happened and what helps, and nothing that others wrote stays
// what a chat or a mail acts on.
func TestAlarmText(t *testing.T) {
	for event, want := range map[client.AlarmMessage][]string{
		client.MessageAlarmRaised: {"URGENT countersign service: answer differs, shop", "Alarm 17 was raised 400 times at 2023-11-14 22:13:20 UTC.", client.AlarmAnswerDiffers.Do()},
		client.MessageAlarmGrown:  {"URGENT countersign service: answer differs, shop, 400 times", "since 2023-11-14 22:13:20 UTC, last at 2023-11-14 22:14:20 UTC."},
		client.MessageAlarmEnded:  {"countersign service: answer differs, shop, ended", "Alarm 17 ended at 2023-11-14 22:14:50 UTC: It is over."},
	} {
		title, text, _ := strings.Cut(alarmText("service", hostilePost(client.AlarmAnswerDiffers, event)), "\n")
		if title != want[0] || strings.ContainsAny(title, "\r") {
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

// TestChatsTakeAlarms: every message is one that the chats of docs/operator/README.md take as it is. None is
// asked here; the rules are those of their documents.
func TestChatsTakeAlarms(t *testing.T) {
	for _, kind := range client.Values[client.AlarmKind]() {
		for _, event := range []client.AlarmMessage{client.MessageAlarmRaised, client.MessageAlarmGrown, client.MessageAlarmEnded} {
			p := hostilePost(kind, event)
			p.Alarm.Examples = []string{hostile, hostile + "2", hostile + "3", hostile + "4", hostile + "5"}
			_, body, err := alarmMessage("service", "", p)
			var m map[string]any
			if err == nil {
				err = json.Unmarshal(body, &m)
			}
			text, _ := m["text"].(string)
			content, _ := m["content"].(string)
			switch {
			case err != nil || text == "":
				t.Errorf("%s: %v, %s", kind, err, body)
			case content != text || len([]rune(content)) > 2000: // Discord
				t.Errorf("%s: content has %d characters", kind, len([]rune(content)))
			case m["type"] != nil || m["channel"] != nil || m["props"] != nil || m["attachments"] != nil || m["username"] != nil: // Mattermost and Slack
				t.Errorf("%s: %s has a member that Mattermost or Slack acts on", kind, body)
			}
		}
	}
}
