package web

// Object is one JSON object that was read.
type Object struct {
	src     string
	Members []Member // in the order in which they are written
}

// Member is a member of an Object.
type Member struct {
	Name       string
	From       int // of the first quote of the name in the text, in bytes
	Start, End int // of the value, likewise
}

// ParseObject reads src, which must be one object of at most limit bytes. White
// space may stand around it. Errors are of type *JSONError.
func ParseObject(src []byte, limit int) (*Object, error) {
	r, err := NewJSONReader(src, limit)
	if err != nil {
		return nil, err
	}
	if r.Kind() != KindObject {
		return nil, &JSONError{Problem: "not a JSON object", Offset: -1, Syntax: true}
	}
	o := &Object{src: r.src, Members: make([]Member, 0, 16)}
	err = r.Object(func(name string) error {
		from, start := r.nameAt, r.pos
		err := r.value()
		o.Members = append(o.Members, Member{name, from, start, r.pos})
		return err
	})
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Find returns the member called name.
func (o *Object) Find(name string) (Member, bool) {
	for _, m := range o.Members {
		if m.Name == name {
			return m, true
		}
	}
	return Member{}, false
}

// Raw returns the value of m as it is written.
func (o *Object) Raw(m Member) string { return o.src[m.Start:m.End] }

// ValidMember reports whether raw is one value that may be a member of an
// outermost object.
func ValidMember(raw string) bool {
	r, err := NewJSONReader([]byte(raw), len(raw))
	if err != nil {
		return false
	}
	r.depth = 1 // the object itself
	_, err = r.Value()
	return err == nil && r.End() == nil
}
