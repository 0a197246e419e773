package client

import "strings"

// Facts say what was wrong with an attempt: what the merchant must mend. They never hold a
// key, and of an opened answer only members of the interface.
type Facts struct {
	Message  string `json:"message,omitempty" doc:"the merchant's own message, at most 500 characters, without control characters and API keys"`
	Member   string `json:"member,omitempty" doc:"the member of the response, or of the opened answer, that was wrong"`
	Expected string `json:"expected,omitempty" doc:"what that member should have been, at most 200 characters"`
	Came     string `json:"came,omitempty" doc:"what came instead, at most 200 characters; of a value that cannot be read its kind alone, such as a text"`
	Cause    string `json:"cause,omitempty" doc:"what the member's fault is, or why there was no answer: what could not be read, where a redirect led, why there was no connection; at most 200 characters"`
}

// Text says f in one line, for people.
func (f Facts) Text() string {
	var parts []string
	or := func(text string) string {
		if text == "" {
			return "nothing"
		}
		return "“" + text + "”"
	}
	switch {
	case f.Member == "" && f.Cause != "":
		parts = append(parts, f.Cause)
	case f.Member != "" && f.Cause == "":
		parts = append(parts, f.Member+": "+or(f.Expected)+" was expected, "+or(f.Came)+" came")
	case f.Member != "" && f.Came == "":
		parts = append(parts, f.Member+" "+f.Cause)
	case f.Member != "":
		parts = append(parts, f.Member+" "+f.Cause+": "+f.Came+" came")
	}
	if f.Message != "" {
		parts = append(parts, "the merchant says: “"+f.Message+"”")
	}
	return strings.Join(parts, "; ")
}
