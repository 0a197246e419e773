package countersigntest

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"

	"countersign"
	"countersign/envelope"
)

func randomBits() (b [6]byte) {
	_, _ = rand.Read(b[:])
	return b
}

// UUIDFirst is a ServiceConfig.Order that puts requestUUID before all other
// members, so that all later blocks could be exchanged.
func UUIDFirst(canonical []byte) []byte {
	start, end, ok := countersign.UUIDSpan(canonical)
	if !ok {
		return canonical
	}
	name := []byte(`"requestUUID":"`)
	from := start - len(name)
	if from < 1 || !bytes.Equal(canonical[from:start], name) || canonical[from-1] != ',' {
		return canonical
	}
	moved := append([]byte("{"), canonical[from:end+1]...)
	moved = append(moved, ',')
	moved = append(moved, canonical[1:from-1]...)
	return append(moved, canonical[end+1:]...)
}

// WrapBody gives a sealed body the form f.
func WrapBody(f envelope.BodyForm, body []byte) []byte {
	switch f {
	case envelope.FormField:
		return []byte("data=" + url.QueryEscape(string(body)))
	case envelope.FormString:
		b, _ := json.Marshal(string(body))
		return b
	case envelope.FormObject:
		b, _ := json.Marshal(map[string]string{"data": string(body)})
		return b
	}
	return body
}

// sealChunks is envelope.Seal with chunks of at most chunk bytes.
func sealChunks(key *envelope.Key, p envelope.Padding, plaintext []byte, chunk int) ([]byte, error) {
	if chunk <= 0 || chunk >= key.MaxChunk(p) {
		return envelope.Seal(key, p, plaintext)
	}
	var blocks []byte
	for len(plaintext) > 0 {
		n := min(chunk, len(plaintext))
		body, err := envelope.Seal(key, p, plaintext[:n])
		if err != nil {
			return nil, err
		}
		plaintext = plaintext[n:]
		if blocks, err = base64.StdEncoding.AppendDecode(blocks, body); err != nil {
			return nil, err
		}
	}
	return base64.StdEncoding.AppendEncode(nil, blocks), nil
}

// Splice joins the first n blocks of one sealed body to the rest, from block n
// on, of another. size is the length of a block in bytes.
func Splice(head, tail []byte, n, size int) ([]byte, error) {
	a, err := blocksOf(head, n, size)
	if err != nil {
		return nil, err
	}
	b, err := blocksOf(tail, n, size)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, append(bytes.Clone(a[:n*size]), b[n*size:]...)), nil
}

// Cut gives the first n blocks of a sealed body.
func Cut(body []byte, n, size int) ([]byte, error) {
	b, err := blocksOf(body, n, size)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b[:n*size]), nil
}

func blocksOf(body []byte, atLeast, size int) ([]byte, error) {
	b, err := base64.StdEncoding.AppendDecode(nil, body)
	if err != nil {
		return nil, fmt.Errorf("countersigntest: %w", err)
	}
	if len(b)%size != 0 || len(b) < atLeast*size {
		return nil, fmt.Errorf("countersigntest: %d bytes are not at least %d blocks of %d", len(b), atLeast, size)
	}
	return b, nil
}
