package outbox

import (
	"encoding/hex"
	"encoding/json"

	"countersign/client"
	"countersign/internal/db"
)

// flag returns the stored form of a bool, because the databases have no common boolean type.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func unhex(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil || b == nil {
		return []byte{}
	}
	return b
}

// factsText returns the stored form of a's facts.
func (a *Attempt) factsText() string {
	if a.Facts == nil {
		return ""
	}
	text, _ := json.Marshal(a.Facts) // cannot fail: only texts
	return db.Clean(string(text))
}

// factsOf inverts factsText. It returns nil for a text that is empty or that it cannot read.
func factsOf(text string) *client.Fact {
	var f client.Fact
	if text == "" || json.Unmarshal([]byte(text), &f) != nil {
		return nil
	}
	return &f
}
