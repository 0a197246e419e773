package console

import (
	"bytes"
	"html"
	"regexp"
)

// Forms of the pages. The templates escape quotes and angle brackets in what others wrote, so
// none of it looks like these.
var (
	postForm  = regexp.MustCompile(`(?s)<form method="post" action="([^"]+)".*?</form>`)
	formField = regexp.MustCompile(`(?s)<input [^>]*>|<textarea [^>]*>.*?</textarea>`)
	fieldName = regexp.MustCompile(` name="([^"]+)"`)
	fieldKind = regexp.MustCompile(` type="(?:hidden|checkbox|radio)"`)
	fieldText = regexp.MustCompile(` value="[^"]*"`)
)

// retype fills the form that was refused with what was typed into it, and opens what hides it. It
// works on the page that was made, so that no form has to remember it.
func (o refused) retype(page []byte) []byte {
	if len(o.Problems) == 0 || o.At == "" {
		return page
	}
	var b bytes.Buffer
	from := 0
	for _, m := range postForm.FindAllSubmatchIndex(page, -1) {
		if html.UnescapeString(string(page[m[2]:m[3]])) != o.At {
			continue
		}
		before := page[from:m[0]]
		if i := bytes.LastIndex(before, []byte("<details ")); i >= 0 && !bytes.Contains(before[i:], []byte("</details>")) && !bytes.HasPrefix(before[i:], []byte("<details open")) {
			b.Write(before[:i])
			b.WriteString("<details open ")
			before = before[i+len("<details "):]
			// A template may have opened it.
			before = bytes.Replace(before, []byte(" open>"), []byte(">"), 1)
		}
		b.Write(before)
		b.Write(formField.ReplaceAllFunc(page[m[0]:m[1]], o.field))
		from = m[1]
	}
	b.Write(page[from:])
	return b.Bytes()
}

// field returns an input or a textarea with what was typed.
func (o refused) field(tag []byte) []byte {
	name := fieldName.FindSubmatch(tag)
	if name == nil || fieldKind.Match(tag) {
		return tag
	}
	typed, is := o.Typed[html.UnescapeString(string(name[1]))]
	if !is {
		return tag
	}
	text := []byte(html.EscapeString(typed))
	if bytes.HasPrefix(tag, []byte("<textarea ")) {
		// A browser leaves out a line end at the beginning.
		return append(append(append(tag[:bytes.IndexByte(tag, '>')+1:bytes.IndexByte(tag, '>')+1], '\n'), text...), "</textarea>"...)
	}
	tag = fieldText.ReplaceAll(tag, nil)
	return append(append(append(tag[:len(tag)-1:len(tag)-1], ` value="`...), text...), `">`...)
}
