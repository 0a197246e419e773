package merchant

import (
	"fmt"
	"sync"
	"time"

	"countersign"
	"countersign/internal/web"
)

// Handler answers callbacks (PROTOCOL.md, H2). New makes it. Many goroutines may
// use it at once.
type Handler struct {
	c       Config   // without its API keys
	openers []opener // one for each key
	opening *openings
	bodies  *web.Budget
	lease   time.Duration

	// Functions, because fmt prints the unexported fields of a struct that holds
	// a Handler without calling its methods, but cannot look into a function.
	apiKey      func() countersign.APIKey
	knowsAPIKey func(values []string) bool

	keyed bool // there are CallbackAPIKeys

	mu     sync.Mutex
	calls  map[entryKey]*call      // the merchant's functions that are running
	unkept map[entryKey]Settlement // settlements that the Inbox failed to record

	holds  *holds
	proofs *proofs
	floods floods
	recent recent // requestUUIDs of signed requests that were taken

	remembered recent // requests that were refused, by Blocks.Body
}

// String names h by its paths. Without it fmt would print its secrets.
func (h *Handler) String() string {
	return fmt.Sprintf("merchant handler of %s and %s", h.c.NotifyPath, h.c.WithdrawPath)
}

// Format is String for every verb.
func (h *Handler) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(h.String())) }
