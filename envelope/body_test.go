package envelope

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestUnwrap(t *testing.T) {
	const b = "AB+/CD12AB+/CD1="
	q := url.QueryEscape(b)
	for _, c := range []struct {
		name, body, inner string
		form              BodyForm
		err               error
	}{
		{"bare", b, b, FormBare, nil},
		{"bare, white space around", "\r\n " + b + "\n\t", b, FormBare, nil},
		{"bare in lines", "AB+/\r\nCD12", "AB+/\r\nCD12", FormBare, nil},
		{"bare, two signs of padding", "ABC=\r\n=", "ABC=\r\n=", FormBare, nil},
		{"bare, for Open to refuse", "ABCDE", "ABCDE", FormBare, nil},
		{"bare with a space", strings.ReplaceAll(b, "+", " "), "", FormBare, ErrBase64},
		{"bare of the URL alphabet", "AB-_", "", FormBare, ErrBase64},
		{"bare, percent-encoded", q, "", FormBare, ErrBase64},
		{"object with a byte order mark", "\uFEFF{\"data\":\"" + b + "\"}", "", FormBare, ErrBodyForm},
		{"compressed", "\x1f\x8b\x08\x00" + b, "", FormBare, ErrBodyForm},
		{"multipart", "--x\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\n" + b + "\r\n--x--\r\n", "", FormBare, ErrBodyForm},
		{"bare with NUL", "AB\x00C", "", FormBare, ErrBase64},
		{"bare that starts like the field", "dataAB12", "dataAB12", FormBare, nil},

		{"field", "data=" + q, b, FormField, nil},
		{"field with a line end", "data=" + q + "\r\n", b, FormField, nil},
		{"field with an encoded line end", "data=" + q + "%0D%0A", b, FormField, nil},
		{"field, only plus encoded", "data=" + strings.ReplaceAll(b, "+", "%2B"), b, FormField, nil},
		{"field among others", "apiKey=k&data=" + q + "&type=1", b, FormField, nil},
		{"field after an empty pair", "&data=" + q, b, FormField, nil},
		{"field with raw plus", "data=" + b, "", FormField, ErrBase64},
		{"field empty", "data=", "", FormField, ErrEmpty},
		{"field of padding", "data==", "", FormField, nil}, // "=" is Base64 as far as Unwrap looks
		{"field twice", "data=" + q + "&data=" + q, "", FormField, ErrBodyForm},
		{"field of another case", "Data=" + q, "", FormField, ErrBodyForm},
		{"field missing", "payload=" + q, "", FormField, ErrBodyForm},
		{"field with a bad escape", "data=AB%2", "", FormField, ErrBodyForm},
		{"field with a semicolon", "data=AB;x=1", "", FormField, ErrBodyForm},
		{"field with JSON", "data=%7B%7D", "", FormField, ErrBase64},

		{"string", `"` + b + `"`, b, FormString, nil},
		{"string with escapes", `"AB+\/\u0043D12\r\n"`, "AB+/CD12", FormString, nil},
		{"string empty", `""`, "", FormString, ErrEmpty},
		{"string with a space", `"AB CD"`, "", FormString, ErrBase64},
		{"string and more", `"ABCD" "ABCD"`, "", FormString, ErrBodyForm},
		{"string without end", `"ABCD`, "", FormString, ErrBodyForm},

		{"object", `{"data":"` + b + `"}`, b, FormObject, nil},
		{"object of a response", ` {"apiKey":"k","errCode":0,"message":"","data":"` + b + `","more":{"data":[1,{"x":null}]}} `, b, FormObject, nil},
		{"object with an escaped name", `{"d\u0061ta":"ABCD"}`, "ABCD", FormObject, nil},
		{"object of another case", `{"Data":"ABCD"}`, "", FormObject, ErrBodyForm},
		{"object with both cases", `{"Data":"AAAA","data":"ABCD","DATA":"BBBB"}`, "ABCD", FormObject, nil},
		{"object without", `{}`, "", FormObject, ErrBodyForm},
		{"object nested only", `{"x":{"data":"ABCD"}}`, "", FormObject, ErrBodyForm},
		{"object twice", `{"data":"ABCD","data":"ABCD"}`, "", FormObject, ErrBodyForm},
		{"object twice by escape", `{"data":"ABCD","d\u0061ta":"ABCD"}`, "", FormObject, ErrBodyForm},
		{"object with another member twice", `{"x":1,"data":"ABCD","x":2}`, "", FormObject, ErrBodyForm},
		{"object with null", `{"data":null}`, "", FormObject, ErrBodyForm},
		{"object with an object", `{"data":{"type":1}}`, "", FormObject, ErrBodyForm},
		{"object with a number", `{"data":1}`, "", FormObject, ErrBodyForm},
		{"object with nothing in it", `{"data":""}`, "", FormObject, ErrEmpty},
		{"object and more", `{"data":"ABCD"}{}`, "", FormObject, ErrBodyForm},
		{"object cut", `{"data":"ABCD"`, "", FormObject, ErrBodyForm},
		{"object with a comma", `{"data":"ABCD",}`, "", FormObject, ErrBodyForm},
		{"object deep", `{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `,"data":"ABCD"}`, "", FormObject, ErrBodyForm},

		{"array", `["ABCD"]`, "", FormBare, ErrBase64},
		{"null", `null`, "null", FormBare, nil}, // four characters of the alphabet; Open finds no block in them
		{"empty", "", "", FormBare, ErrEmpty},
		{"white space", " \r\n", "", FormBare, ErrEmpty},
		{"too large", strings.Repeat("A", MaxBody+1), "", FormBare, ErrTooLarge},
		{"byte order mark", "\ufeffABCD", "", FormBare, ErrBodyForm},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "field of padding" {
				c.inner = "="
			}
			inner, form, err := Unwrap([]byte(c.body))
			if !errors.Is(err, c.err) || string(inner) != c.inner || form != c.form {
				t.Errorf("gave %q, %v, %v; want %q, %v, %v", inner, form, err, c.inner, c.form, c.err)
			}
			if err != nil && inner != nil {
				t.Error("the Base64 came with the error")
			}
		})
	}
}

// TestUnwrapOpens takes one sealed body through every form.
func TestUnwrapOpens(t *testing.T) {
	key := key1024(t)
	plain := sample(450)
	body := string(mustSeal(t, key, PKCS1v15, plain))
	str, _ := json.Marshal(body)
	object, _ := json.Marshal(map[string]any{"data": body, "errCode": 0})
	for form, wrapped := range map[BodyForm]string{
		FormBare:   body,
		FormField:  url.Values{"data": {body}}.Encode(),
		FormString: string(str),
		FormObject: string(object),
	} {
		inner, got, err := Unwrap([]byte(wrapped))
		if err != nil || got != form {
			t.Errorf("%v: taken for %v, %v", form, got, err)
			continue
		}
		if opened, err := Open(key.Public(), PKCS1v15, inner); err != nil || !bytes.Equal(opened, plain) {
			t.Errorf("%v: %v", form, err)
		}
	}
	if Padding(9).String() != "Padding(9)" {
		t.Error("an unknown padding has no name")
	}
}
