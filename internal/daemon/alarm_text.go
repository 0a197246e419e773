package daemon

import (
	"fmt"
	"strings"
	"unicode"

	"countersign/client"
	"countersign/internal/db"
)

// alarmText returns a message in words for people, of at most 2,000 characters: Discord takes no more. Text by others
// is not copied as it came: in a chat it could mention people, link to an address, or look like another text.
func alarmText(end string, p db.AlarmPost) string {
	a := p.Alarm
	kind := strings.ReplaceAll(string(a.Kind), "_", " ")
	about := ""
	if a.Merchant != "" {
		about = ", " + plain(a.Merchant)
	}
	title := "countersign " + end + ": " + kind + about
	if a.Kind.Urgent() && p.Event != client.MessageAlarmEnded {
		title = "URGENT " + title
	}
	times := fmt.Sprintf("%d times", a.Number)
	if a.Number == 1 {
		times = "once"
	}
	var lines []string
	switch p.Event {
	case client.MessageAlarmGrown:
		title += ", " + times
		lines = append(lines, fmt.Sprintf("Alarm %d was raised %s since %s, last at %s.", a.Seq, times, at(a.First),
			at(a.Last)))
	case client.MessageAlarmEnded:
		title += ", ended"
		lines = append(lines, fmt.Sprintf("Alarm %d ended at %s: %s", a.Seq, at(a.Ended), a.EndedText),
			fmt.Sprintf("It was raised %s since %s.", times, at(a.First)))
	default:
		lines = append(lines, fmt.Sprintf("Alarm %d was raised %s at %s.", a.Seq, times, at(a.First)))
	}
	if len(a.Examples) > 0 {
		var list []string
		for _, e := range a.Examples {
			list = append(list, plain(e))
		}
		lines = append(lines, "About: "+strings.Join(list, ", "))
	}
	if p.Event != client.MessageAlarmEnded {
		lines = append(lines, a.Kind.Text())
	}
	return title + "\n" + strings.Join(lines, "\n")
}

func at(m db.Millis) string { return m.Time().UTC().Format("2006-01-02 15:04:05 UTC") }

// plain returns a text by others in a form that chats and mails show as it is.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), strings.ContainsRune(" ._-:/,=+#()", r):
			return r
		}
		return '?'
	}, text)
	text = strings.ReplaceAll(text, "://", ": //") // no link
	if r := []rune(text); len(r) > 100 {
		return string(r[:100]) + "…"
	}
	return text
}
