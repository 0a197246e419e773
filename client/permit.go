package client

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"countersign"
	"countersign/envelope"
)

// PermitNote is what a signed permit says (PROTOCOL.md, Permits).
type PermitNote struct {
	Merchant   string // id of the merchant
	CallBackID string // the merchant's id of the withdrawal
	Withdrawal string // the service's id of it
	Details    Details
	Claim      string // the execution that the permit is for
	Epoch      int64  // the restores of the service's database; 0: there was none
	Time       Time   // of this note
	Duplicate  bool   // the claim got the permit before
}

// Execution is what somebody is about to execute, for VerifyPermit.
type Execution struct {
	Claim      string  // required
	Details    Details // all four members are required
	Merchant   string  // required with MerchantKeys; else empty: not compared
	CallBackID string  // empty: not compared
	Epoch      int64   // the highest of all permits that were seen; 0: all are, or none was seen
	// Duplicate also accepts a permit that the claim got before. Set it only after you have found that the execution
	// under this claim did not move the funds.
	Duplicate bool
	// MerchantKeys are the public parts of the keys with which Merchant signs its answers, obtained from Merchant
	// itself. With them Answer, which came with the note, must confirm what the permit says. Nil: Answer is not
	// checked.
	MerchantKeys []*envelope.SigningKey
	Answer       *SignedAnswer
}

// The errors of VerifyPermit, beside those of a SignedAnswer.
var (
	// ErrExecution means that the Execution lacks what a permit is compared with.
	ErrExecution = errors.New("what is to be executed is incomplete")
	// ErrPermitForged means that the note is not signed by this key.
	ErrPermitForged = errors.New("the permit is not signed by this key")
	// ErrPermitMalformed means that what is signed is no permit, or has another form than
	// PROTOCOL.md says.
	ErrPermitMalformed = errors.New("the note is not a permit")
	// ErrPermitDiffers means that the permit is for another execution.
	ErrPermitDiffers = errors.New("the permit is for another execution")
	// ErrPermitEpoch means that a restore has ended the database that issued the permit.
	ErrPermitEpoch = errors.New("the permit is of an epoch that a restore has ended")
	// ErrPermitDuplicate means that the claim got the permit before: the execution may have moved the
	// funds already.
	ErrPermitDuplicate = errors.New("the permit was given before: find out whether its execution moved the funds")
)

// permitTitle is the first line of a permit. The same key signs checkpoints of a log; none of them begins so.
const permitTitle = "countersign-permit/1"

// members returns the lines of a permit, in order: the name of each and its value.
func (n PermitNote) members() [][2]string {
	return [][2]string{
		{"merchant", n.Merchant}, {"callBackId", n.CallBackID}, {"withdrawal", n.Withdrawal},
		{"address", n.Details.Address}, {"chainName", n.Details.ChainName}, {"symbol", n.Details.Symbol},
		{"amount", n.Details.Amount.String()}, {"claim", n.Claim}, {"epoch", strconv.FormatInt(n.Epoch, 10)},
		{"time", n.Time.String()}, {"duplicate", strconv.FormatBool(n.Duplicate)},
	}
}

// Text is what is signed: the title, and one line for each member.
func (n PermitNote) Text() string {
	var b strings.Builder
	b.WriteString(permitTitle + "\n")
	for _, m := range n.members() {
		b.WriteString(m[0] + ": " + escapeLine(m[1]) + "\n")
	}
	return b.String()
}

// escapeLine writes what a line cannot hold, and the percent sign, as % and two hexadecimal
// digits for each byte.
func escapeLine(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r != '%' && r >= ' ' && (r < 0x7f || r > 0x9f) && r != '\u2028' && r != '\u2029' {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(string(r)) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// parsePermit reads what Text writes, and nothing else.
func parsePermit(text string) (PermitNote, error) {
	title, rest, _ := strings.Cut(text, "\n")
	values := map[string]string{}
	for line := range strings.Lines(rest) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		values[name], _ = url.PathUnescape(value) // what it cannot read is not in the allowed form
	}
	epoch, err := strconv.ParseInt(values["epoch"], 10, 64)
	at, err2 := time.Parse(timeLayout, values["time"])
	sum, err3 := countersign.ParseAmount(values["amount"])
	n := PermitNote{Merchant: values["merchant"], CallBackID: values["callBackId"], Withdrawal: values["withdrawal"],
		Details: Details{Address: values["address"], ChainName: values["chainName"], Symbol: values["symbol"], Amount: sum},
		Claim:   values["claim"], Epoch: epoch, Time: TimeOf(at), Duplicate: values["duplicate"] == "true"}
	switch err := cmp.Or(err, err2, err3); {
	case title != permitTitle:
		return PermitNote{}, ErrPermitMalformed
	case err != nil:
		return PermitNote{}, fmt.Errorf("%w: %w", ErrPermitMalformed, err)
	case n.Text() != text: // other members, another order, another form of a value
		return PermitNote{}, fmt.Errorf("%w: it is not in the one allowed form", ErrPermitMalformed)
	}
	return n, nil
}

// plainNote undoes what copying a note through text files, shells and mail does to its line ends. No
// value of a permit has a line end.
func plainNote(signed string) string {
	return strings.TrimRight(strings.ReplaceAll(signed, "\r\n", "\n"), "\n") + "\n"
}

// missing returns what x lacks, or "" if it lacks nothing.
func (x *Execution) missing() string {
	for _, m := range []struct{ name, value string }{{"claim", x.Claim}, {"address", x.Details.Address},
		{"chainName", x.Details.ChainName}, {"symbol", x.Details.Symbol}, {"amount", x.Details.Amount.String()}} {
		if m.value == "" {
			return m.name
		}
	}
	if x.MerchantKeys != nil && x.Merchant == "" {
		return "merchant, whose keys are given"
	}
	return ""
}

// VerifyPermit returns the note of a permit that allows x (PROTOCOL.md, Permits): key, the verifier key of the
// service's audit log, has signed it, it names x, no restore has ended its epoch, and it is no duplicate. With
// x.MerchantKeys the merchant itself must have confirmed this. It needs neither the service nor a database. The caller
// must remember the highest Epoch and, by Merchant and CallBackID, what was executed, since a note can be shown twice.
// The errors are those above.
func VerifyPermit(signed, key string, x Execution) (PermitNote, error) {
	if member := x.missing(); member != "" {
		return PermitNote{}, fmt.Errorf("%w: give its %s", ErrExecution, member)
	}
	verifier, err := note.NewVerifier(strings.TrimSpace(key))
	if err != nil {
		return PermitNote{}, errors.New("the key is not a verifier key: give NAME+HASH+KEY, as audit key prints it")
	}
	signed = plainNote(signed)
	// The reader of notes ignores signatures of other keys and repeated ones.
	if i := strings.LastIndex(signed, "\n\n"); i >= 0 && strings.Count(signed[i+2:], "\n") > 1 {
		return PermitNote{}, fmt.Errorf("%w: it has more than one signature", ErrPermitMalformed)
	}
	opened, err := note.Open([]byte(signed), note.VerifierList(verifier))
	if err != nil || len(opened.Sigs) != 1 {
		return PermitNote{}, ErrPermitForged
	}
	if _, err := base64.StdEncoding.Strict().DecodeString(opened.Sigs[0].Base64); err != nil {
		return PermitNote{}, ErrPermitForged // unused bits of its last character
	}
	n, err := parsePermit(opened.Text)
	if err != nil {
		return PermitNote{}, err
	}
	differs := n.Details.Differs(x.Details)
	switch {
	case n.Claim != x.Claim:
		differs = "claim"
	case x.Merchant != "" && n.Merchant != x.Merchant:
		differs = "merchant"
	case x.CallBackID != "" && n.CallBackID != x.CallBackID:
		differs = "callBackId"
	}
	switch {
	case differs != "":
		return n, fmt.Errorf("%w: it has another %s", ErrPermitDiffers, differs)
	case n.Epoch < x.Epoch:
		return n, fmt.Errorf("%w: it has %d, and %d was seen before", ErrPermitEpoch, n.Epoch, x.Epoch)
	}
	if x.MerchantKeys != nil {
		if err := x.Answer.Confirms(n.CallBackID, n.Details, x.MerchantKeys...); err != nil {
			return n, err
		}
	}
	if n.Duplicate && !x.Duplicate {
		return n, ErrPermitDuplicate
	}
	return n, nil
}
