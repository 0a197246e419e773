package admin

import (
	"slices"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

type blocksQuery struct {
	Attempt int `query:"attempt" minimum:"1" doc:"number of the attempt, from 1; absent: the last"`
}

// callbackBlocks says how an attempt lies in the blocks of its body. It seals nothing: the
// lengths follow from the key and the plaintext.
func (s *Server) callbackBlocks(c *api.Call, q blocksQuery, _ api.None) (client.Blocks, error) {
	id, err := c.PathID()
	if err != nil {
		return client.Blocks{}, err
	}
	cb, err := s.Lists.Callback(c.R.Context(), id)
	if err != nil {
		return client.Blocks{}, err
	}
	attempts, err := s.Lists.Attempts(c.R.Context(), id)
	if err != nil {
		return client.Blocks{}, err
	}
	var shown outbox.Attempt // the zero Attempt: there was none yet
	for _, a := range attempts {
		if q.Attempt == 0 || a.Number == q.Attempt {
			shown = a
		}
	}
	if q.Attempt != 0 && shown.Number == 0 {
		return client.Blocks{}, db.ErrNotFound
	}
	m, err := s.Outbox.Merchant(c.R.Context(), cb.Merchant)
	if err != nil {
		return client.Blocks{}, err
	}
	if m.State == outbox.MerchantDeleted { // the blocks' length is that of its key
		return client.Blocks{}, outbox.ErrMerchantDeleted
	}
	return blocksOf(m, cb.Payload, shown), nil
}

// blocksOf lays the plaintext of an attempt out in blocks.
func blocksOf(m outbox.Merchant, payload []byte, a outbox.Attempt) client.Blocks {
	padding, marks := envelope.PKCS1v15, 3 // 00, the type, and the 00 after the padding
	if m.Scheme == outbox.SchemeMerchantOAEP {
		padding = envelope.OAEP
	}
	out := client.Blocks{Attempt: a.Number, RequestUUID: a.RequestUUID, Fingerprint: m.Fingerprint, BlockBytes: m.Key.Size(),
		Padding: padding.String(), Blocks: []client.SealedBlock{}}
	plain := slices.Clone(payload)
	if start, end, ok := countersign.UUIDSpan(plain); ok && end-start == len(a.RequestUUID) {
		copy(plain[start:end], a.RequestUUID)
	}
	for chunk := range slices.Chunk(plain, m.Key.MaxChunk(padding)) {
		b := client.SealedBlock{Index: len(out.Blocks), Offset: out.SealedBytes, DataBytes: len(chunk), Data: strings.ToValidUTF8(string(chunk), "\ufffd")}
		if padding == envelope.PKCS1v15 {
			b.PaddingBytes = out.BlockBytes - marks - len(chunk)
		}
		out.Blocks = append(out.Blocks, b)
		out.SealedBytes += out.BlockBytes
	}
	return out
}
