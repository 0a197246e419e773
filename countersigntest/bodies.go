package countersigntest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"

	"countersign"
	"countersign/envelope"
)

// uuidFirst puts requestUUID before all other members.
func uuidFirst(canonical []byte) []byte {
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

// sealChunks is envelope.Seal with chunks of at most chunk bytes; 0: as many as fit.
func sealChunks(key *envelope.Key, p envelope.Padding, plaintext []byte, chunk int) ([]byte, error) {
	if chunk <= 0 {
		return envelope.Seal(key, p, plaintext)
	}
	var blocks []byte
	for c := range slices.Chunk(plaintext, min(chunk, key.MaxChunk(p))) {
		body, err := envelope.Seal(key, p, c)
		if err != nil {
			return nil, err
		}
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

// blocksOf decodes a sealed body, which must have at least that many blocks.
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
