package learn

import (
	"fmt"
	"strings"
)

// lines are for a terminal, each with a word in front.
type lines struct{ strings.Builder }

func (s *lines) add(word, format string, args ...any) {
	fmt.Fprintf(s, "%-10s %s\n", word, fmt.Sprintf(format, args...))
}

func (s *lines) list(word string, texts []string) {
	if len(texts) > 0 {
		s.add(word, "%s", strings.Join(texts, ", "))
	}
}

// String renders f for a terminal.
func (f Finding) String() string {
	var s lines
	if f.Field != "" {
		s.add("form", "%v, in %s", f.Form, printable(f.Field))
	} else {
		s.add("form", "%v", f.Form)
	}
	if !f.Opened {
		s.add("result", "%s", f.Seal)
		for _, hint := range f.Try {
			s.add("try", "%s", hint)
		}
		return s.String()
	}
	s.add("sealed", "%s", f.Seal)
	s.WriteString(f.Message())
	return s.String()
}

// Message renders what the opened plaintext is, for a terminal.
func (f Finding) Message() string {
	var s lines
	if f.Lenient {
		s.add("message", "callback type %d, %v", int(f.Type), f.Type)
	} else {
		s.add("message", "no valid request: %v", f.Refused[0])
	}
	s.list("members", f.Names)
	s.list("missing", f.Missing)
	s.list("different", f.Different)
	s.list("unknown", f.Unknown)
	if f.Names != nil {
		s.add("binding", "%v; the requestUUID is %s", f.Binding, f.UUID)
	}
	switch {
	case f.Strict:
		s.add("rules", "it has the form of the interface")
	case f.Lenient:
		s.add("rules", "it differs from the interface without loss: lenient")
	}
	for _, fault := range f.Refused {
		s.add("refused", "%v; no setting changes that, the provider must", fault)
	}
	return s.String()
}
