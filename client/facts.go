package client

import "strings"

// Fact is one thing that was not as expected: in an attempt, what the merchant must mend; in a callback that the
// gateway refused, what the service sent. It never holds a key, and of an opened answer only members of the interface.
type Fact struct {
	Member   string `json:"member,omitempty" doc:"the member that was wrong, of the response, of the opened answer or of the refused callback; absent: it is about the whole of it"`
	Cause    string `json:"cause,omitempty" doc:"what the member's fault is, or why there was no answer: what could not be read, where a redirect led, why there was no connection; at most 200 characters"`
	Expected string `json:"expected,omitempty" doc:"what would have been right, at most 200 characters; for other_content what was taken first"`
	Came     string `json:"came,omitempty" doc:"what came instead, at most 200 characters; of a response's value that cannot be read its kind alone, such as a text; of a page the words that it begins with"`
	Message  string `json:"message,omitempty" doc:"only of an attempt: the merchant's own message, at most 500 characters, without control characters and API keys"`
}

// Text returns f in one line, for people.
func (f Fact) Text() string {
	var values, parts []string
	quote := func(text string) string {
		switch {
		case f.Cause != "":
			return text
		case text == "":
			return "nothing"
		}
		return "“" + text + "”"
	}
	if f.Expected != "" {
		values = append(values, quote(f.Expected)+" was expected")
	}
	if f.Came != "" || f.Member != "" && f.Cause == "" {
		values = append(values, quote(f.Came)+" came")
	}
	if text := strings.TrimSpace(f.Member + " " + f.Cause); text != "" && len(values) > 0 {
		parts = append(parts, text+": "+strings.Join(values, ", "))
	} else if text != "" {
		parts = append(parts, text)
	}
	if f.Message != "" {
		parts = append(parts, "the merchant says: “"+f.Message+"”")
	}
	return strings.Join(parts, "; ")
}
