package envelope

import (
	"bytes"
	"errors"
	"net/url"
	"testing"
)

// addBodies seeds f with bodies of every kind that the tables test.
func addBodies(f *testing.F, key *Key) {
	f.Helper()
	for _, body := range [][]byte{
		mustSeal(f, key, PKCS1v15, sample(50)),
		mustSeal(f, key, PKCS1v15, sample(300)),
		mustSeal(f, key.Public(), PKCS1v15, sample(300)),
		mustSeal(f, key.Public(), OAEP, sample(100)),
		b64(rawPrivate(f, key, encoded(key, 1, 0xFF, -1, sample(key.Size()-10)))),
		b64(rawPublic(f, key, encoded(key, 2, 0x41, -1, sample(key.Size()-10)))),
		b64(bytes.Repeat([]byte{0xFF}, 256)),
		b64(make([]byte, 128)),
		[]byte("AAAA"),
		[]byte(" \r\n"),
		[]byte("A\r\n=\r\n="),
	} {
		f.Add(body)
		f.Add(append([]byte("\r\n "), body...))
		f.Add(bytes.ReplaceAll(body, []byte("+"), []byte(" ")))
	}
}

func FuzzOpenPublic(f *testing.F) {
	key := fuzzKey(f)
	addBodies(f, key)
	f.Fuzz(func(t *testing.T, body []byte) {
		plain, err := Open(key.Public(), PKCS1v15, body)
		if err != nil {
			if plain != nil {
				t.Fatal("plaintext came with the error")
			}
			mustBeKnown(t, err)
			return
		}
		if len(plain) == 0 || len(plain) > key.MaxPlaintext(PKCS1v15) {
			t.Fatalf("opened %d bytes", len(plain))
		}
		if again, err := Open(key.Public(), PKCS1v15, mustSeal(t, key, PKCS1v15, plain)); err != nil || !bytes.Equal(again, plain) {
			t.Fatalf("sealed again it does not open the same: %v", err)
		}
	})
}

func FuzzOpenPrivate(f *testing.F) {
	key := fuzzKey(f)
	addBodies(f, key)
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 2000 {
			body = body[:2000] // private operations are slow
		}
		for _, p := range []Padding{PKCS1v15, OAEP} {
			plain, err := Open(key, p, body)
			if err != nil && plain != nil || err == nil && len(plain) == 0 {
				t.Fatalf("%v: %d bytes and %v", p, len(plain), err)
			}
			if err != nil && err != ErrOpen {
				mustBeKnown(t, err)
			}
		}
	})
}

func mustBeKnown(t *testing.T, err error) {
	t.Helper()
	for _, known := range []error{ErrEmpty, ErrTooLarge, ErrBase64, ErrLength, ErrBlock} {
		if errors.Is(err, known) {
			return
		}
	}
	t.Fatalf("an error of no known kind: %v", err)
}

func FuzzUnwrap(f *testing.F) {
	for _, body := range []string{
		"AB+/CD1=", "AB CD", "data=AB%2BCD", "data=AB+CD", "a=1&data=QUJD&b=2", "data=", "data=A&data=B", `"QUJD"`, `"AB\/\u0043D"`,
		`{"data":"QUJD"}`, `{"Data":"x","data":"QUJD","errCode":0}`, `{"data":"A","data":"B"}`, `{"data":null}`, `{"data":{}}`, "{", `"`, "&", "=", "====", "%", "",
		"-----BEGIN PUBLIC KEY-----", "<html>", "deadbeef", "QUJD==QUJD==",
	} {
		f.Add([]byte(body))
	}
	key := fuzzKey(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		inner, form, err := Unwrap(body)
		if err != nil {
			if inner != nil {
				t.Fatal("the Base64 came with the error")
			}
			if !errors.Is(err, ErrBodyForm) {
				mustBeKnown(t, err)
			}
		} else {
			again, bare, err := Unwrap(inner)
			if form == FormBare && (err != nil || bare != FormBare || !bytes.Equal(again, inner)) {
				t.Fatalf("unwrapped again it is %v, %v", bare, err)
			}
			field := []byte(url.Values{"data": {string(inner)}}.Encode())
			if len(field) <= MaxBody {
				if again, form, err := Unwrap(field); err != nil || form != FormField || !bytes.Equal(again, inner) {
					t.Fatalf("as a form field it is %v, %v", form, err)
				}
			}
		}
		// The helpers for people take anything as well.
		for _, k := range []*Key{nil, key.Public()} {
			if Explain(k, PKCS1v15, body).String() == "" {
				t.Fatal("nothing is explained")
			}
		}
	})
}

func FuzzParseKey(f *testing.F) {
	key := fuzzKey(f)
	private := must(key.PrivatePEM())(f)
	for _, text := range [][]byte{
		private, key.PublicPEM(), []byte(key.PublicBase64()), append(bytes.Clone(key.PublicPEM()), private...),
		[]byte("-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n"), []byte("MAA="), []byte("ssh-rsa AAAA"), key.p().spki, []byte("0\x80"),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ParseKey(data)
		if err != nil {
			if got != nil {
				t.Fatal("a key came with the error")
			}
			if errors.Is(err, ErrKey) {
				return
			}
			t.Fatalf("an error of no known kind: %v", err)
		}
		again, err := ParseKey([]byte(got.PublicBase64()))
		if err != nil || !again.Equal(got.Public()) {
			t.Fatalf("its public part reads back as %v, %v", again, err)
		}
		if got.HasPrivate() {
			text := must(got.PrivatePEM())(t)
			if again, err := ParseKey(text); err != nil || !again.Equal(got) {
				t.Fatalf("its private part reads back as %v, %v", again, err)
			}
		}
		// Whatever the numbers are, using them must not fail in an unknown way.
		_, err = Open(got.Public(), PKCS1v15, b64(make([]byte, got.Size())))
		mustBeKnown(t, err)
	})
}
