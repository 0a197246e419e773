package envelope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// commonSizes are the block sizes, in bytes, that peers use.
var commonSizes = []int{128, 192, 256, 384, 512, 1024}

// diagnoseText covers the faults that show before the Base64 is decoded.
func diagnoseText(body, inner []byte, unwrapErr error) []string {
	text := trimSpace(body)
	switch {
	case len(body) > MaxBody:
		return []string{fmt.Sprintf("The body is larger than %d bytes; give one body and nothing else.", MaxBody)}
	case len(text) == 0:
		return []string{"The body is empty; a form parser or an earlier reader may have consumed it, so read the raw body once."}
	case bytes.Contains(text, []byte(pemStart)):
		return []string{"This is PEM, not a sealed body; give the Base64 that the peer sent here, and the key as the key."}
	case text[0] == '<':
		return []string{"This is HTML or XML, not a sealed body; a proxy or a wrong URL answered in the peer's place."}
	}
	if text[0] == '{' || text[0] == '[' || text[0] == '"' {
		return diagnoseJSON(text, unwrapErr)
	}
	if problem := outerProblem(text); problem != "" {
		return []string{"The body is not valid: " + problem + "."}
	}
	if inner == nil {
		inner = text
	}
	if strings.Trim(string(inner), "0123456789abcdefABCDEF\r\n") == "" && len(inner) >= 2*MinBits/8 {
		return []string{"The body looks hexadecimal; the peer must write the blocks in standard Base64."}
	}
	if unwrapErr != nil {
		return []string{hintFor(unwrapErr)}
	}
	return nil
}

func diagnoseJSON(text []byte, unwrapErr error) []string {
	if unwrapErr == nil {
		return nil
	}
	var s string
	if json.Unmarshal(text, &s) == nil && strings.HasPrefix(strings.TrimSpace(s), "{") {
		return []string{"The body is a plain message in a JSON string; the sender left out the sealing."}
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return []string{hintFor(unwrapErr)}
	}
	if value, found := members[member]; found && value[0] == '{' {
		return []string{"The member data holds a plain message; the sender left out the sealing."}
	}
	for _, name := range []string{"requestUUID", "trackingId", "callBackId", "txId"} {
		if _, found := members[name]; found {
			return []string{"The body is a plain message; the sender left out the sealing."}
		}
	}
	if len(members) == 1 {
		for name := range members {
			if len(name) >= MinBits/8 {
				return []string{"A form parser took the bare Base64 for the name of a field; read the raw body instead of the parsed form."}
			}
		}
	}
	return []string{hintFor(unwrapErr)}
}

// hintFor returns the sentence for a fault outside the blocks.
func hintFor(err error) string {
	return "The body is not valid: " + strings.TrimPrefix(err.Error(), "body: ") + "."
}

// diagnoseSealed says why sealed, the decoded Base64, does not open, or which keys it fits if there is none.
func (e *Explanation) diagnoseSealed(key *Key, p Padding, sealed []byte) []string {
	_, err := parseDER(sealed)
	text := len(sealed) >= 64 && isText(sealed)
	switch {
	case err == nil:
		return []string{"The body is itself a key; give the Base64 that the peer sent here, and the key as the key."}
	case text && firstStranger(sealed) < 0:
		return []string{"The body is Base64 of Base64; have the sender encode the blocks once."}
	case text:
		return []string{"The body is Base64 of plain text; the sender left out the sealing."}
	case !key.ready():
		return []string{sizesHint(len(sealed))}
	case p == OAEP && !key.HasPrivate():
		return []string{"The key has only its public part, and OAEP is opened with the private part; " +
			"give the file with the private key."}
	case len(sealed)%key.Size() != 0:
		return diagnoseLength(key, len(sealed))
	}
	return e.diagnoseBlocks(key, p, len(sealed))
}

func sizesHint(n int) string {
	if fits := fittingBits(n, 0); fits != "" {
		return fmt.Sprintf("The %d sealed bytes fit keys of %s bits; give the key to see more.", n, fits)
	}
	return fmt.Sprintf("The %d sealed bytes fit no usual key size; check that the body is whole.", n)
}

// fittingBits returns the usual key sizes, in bits, whose blocks n bytes could be, except that of except bytes.
func fittingBits(n, except int) string {
	var fits []string
	for _, size := range commonSizes {
		if n%size == 0 && size != except {
			fits = append(fits, fmt.Sprint(size*8))
		}
	}
	return strings.Join(fits, ", ")
}

func diagnoseLength(key *Key, n int) []string {
	size := key.p().size
	var hints []string
	if fits := fittingBits(n, size); fits != "" {
		hints = append(hints, fmt.Sprintf("The key has %d bits and the %d sealed bytes fit %s bits; use the key of the size that the peer uses.", key.Bits(), n, fits))
	}
	if chunk := key.MaxChunk(PKCS1v15); n%chunk == 0 {
		hints = append(hints, fmt.Sprintf("The %d sealed bytes are a multiple of %d, the chunk size, instead of %d, the block size; plaintext is cut at %d, blocks are joined whole.", n, chunk, size, chunk))
	}
	if len(hints) == 0 {
		hints = append(hints, fmt.Sprintf("%d bytes are %d blocks of %d and %d more; the body lost a part or gained one, so check for size limits and column widths on the way.", n, n/size, size, n%size))
	}
	return hints
}

// diagnoseBlocks says why one of whole blocks does not open.
func (e *Explanation) diagnoseBlocks(key *Key, p Padding, n int) []string {
	one := func(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }
	some := func(is func(BlockExplanation) bool) bool { return slices.ContainsFunc(e.Blocks, is) }
	bad := slices.IndexFunc(e.Blocks, BlockExplanation.bad)
	good := len(e.Blocks) - count(e.Blocks, BlockExplanation.bad)
	otherPadding := func(b BlockExplanation) bool { return b.bad() && b.Problem != reasonNoData && b.Type >= 0 }
	other := "No block opens with either part of this pair; the body was sealed with another pair, so compare fingerprints with the peer."
	switch {
	case bad < 0:
		return nil
	case key.HasPrivate() && some(func(b BlockExplanation) bool { return b.OtherPart }):
		return one("The body was sealed with the private part of this very pair; open it with the public part.")
	case key.HasPrivate() && some(otherPadding):
		return one("The blocks open with another padding than %v; choose the scheme that the peer uses.", p)
	case key.HasPrivate() && some(func(b BlockExplanation) bool { return b.Problem == reasonNoData }):
		return one("Block %d holds no data; have the sender seal no empty chunk.", bad)
	case key.HasPrivate():
	case some(func(b BlockExplanation) bool { return b.Type == 2 }):
		return one("The blocks were sealed with the private part but as block type 2; " +
			"have the sender use block type 1, as RSA/ECB/PKCS1Padding does with a private key.")
	case some(func(b BlockExplanation) bool { return b.Problem == reasonUnpadded }):
		return one("The blocks hold text without padding, cut at %d bytes or so; "+
			"have the sender use PKCS#1 v1.5 padding and chunks of at most %d bytes.", key.Size(), key.MaxChunk(PKCS1v15))
	case count(e.Blocks, func(b BlockExplanation) bool { return b.Type == 1 }) > good:
		return one("Block %d was sealed with this pair but padded wrongly: %s; "+
			"have the sender pad as PKCS#1 v1.5 block type 1.", bad, e.Blocks[bad].Problem)
	case !some(func(b BlockExplanation) bool { return b.InRange }):
		other = "Every block is above the modulus of this key; the body was sealed with another pair, so compare fingerprints with the peer."
	default:
		other = "No block opens with this key; the body was sealed with another pair, so compare fingerprints with the peer."
	}
	if good > 0 {
		return one("%d of %d blocks open and block %d does not; the body was damaged, "+
			"or holds blocks of another pair, so have it sent again.", good, len(e.Blocks), bad)
	}
	hints := []string{other}
	if !key.HasPrivate() {
		hints = append(hints, "If the body was sealed with the public part, only the private part opens it; give the file with the private key.")
	}
	if fits := fittingBits(n, key.Size()); fits != "" {
		hints = append(hints, fmt.Sprintf("The length also fits keys of %s bits; check that the peer's key has %d.", fits,
			key.Bits()))
	}
	return hints
}

func (b BlockExplanation) bad() bool { return b.Problem != "" }

func count(blocks []BlockExplanation, is func(BlockExplanation) bool) (n int) {
	for _, b := range blocks {
		if is(b) {
			n++
		}
	}
	return n
}
