package dispatch

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign"
	"countersign/client"
	"countersign/envelope"
)

// cut returns the chunks of an answer as a sealer makes them.
func cut(plaintext []byte, chunk int) [][]byte { return slices.Collect(slices.Chunk(plaintext, chunk)) }

// opened is an opener for an answer that came in these chunks.
func opened(chunks ...[]byte) func(string) ([]byte, []int, error) {
	var blocks []int
	for _, c := range chunks {
		blocks = append(blocks, len(c))
	}
	return func(string) ([]byte, []int, error) { return bytes.Join(chunks, nil), blocks, nil }
}

// at1024 is how many bytes a block of 1024 bit holds.
const at1024 = 117

// The attack that the rule is for: block 0 of the thief's own honest answer names
// no requestUUID, so any other answer can follow it.
func TestSplicedAnswerDoesNotConfirm(t *testing.T) {
	pair := testPair()
	// The merchant's own order of members: what is moved comes first.
	write := func(callBackID, address, uuid string) string {
		return fmt.Sprintf(`{"address":%q,"chainName":"ETH","symbol":"USDT","amount":"2.5","type":2,"note":%q,"tenantUserId":"user-1","callBackId":%q,"requestUUID":%q}`,
			address, strings.Repeat("n", 8), callBackID, uuid)
	}
	const thief = "0x7e1ef7e1ef7e1ef7e1ef7e1ef7e1ef7e1ef7e1e0"
	seal := func(plaintext string) []byte {
		t.Helper()
		body := must(envelope.Seal(pair.Public(), envelope.PKCS1v15, []byte(plaintext)))
		return must(base64.StdEncoding.DecodeString(string(body)))
	}
	stolen := seal(write("cb-2", thief, otherUUID))
	asked := seal(write("cb-1", testDetails().Address, testUUID))
	spliced := base64.StdEncoding.EncodeToString(slices.Concat(stolen[:pair.Size()], asked[pair.Size():]))
	open := func(data string) ([]byte, []int, error) {
		return envelope.OpenBlocks(pair, envelope.PKCS1v15, []byte(data))
	}
	judge := func(change func(*Question)) Verdict {
		q := testQuestion(false)
		change(&q)
		return Judge(q, answers(spliced), open)
	}
	// The details are the thief's: that is why the answer must show more.
	if v := judge(func(q *Question) { q.Collect = client.CollectAny }); v.Details.Address != thief {
		t.Fatalf("this is not the attack: %+v", v)
	}
	for _, collect := range []client.Collect{"", client.CollectBound, "anything"} {
		v := judge(func(q *Question) { q.Collect = collect })
		if v.Decision != countersign.DecisionNone || v.Result != client.AttemptRetry || v.Reason != client.ReasonAnswerUnbound || v.Alarm != client.AlarmAnswerUnusable {
			t.Errorf("collect %q: %+v", collect, v)
		}
	}
	d := testDetails()
	if v := judge(func(q *Question) { q.Ordered = &d }); v.Decision != countersign.DecisionDeclined {
		t.Errorf("with the order: %+v", v)
	}
}

func TestJudgeBound(t *testing.T) {
	right := []byte(rightWithdrawal)
	at := func(text string) int { return strings.Index(rightWithdrawal, text) }
	behind := func(text string) int { return at(text) + len(text) }
	split := func(offsets ...int) (chunks [][]byte) {
		from := 0
		for _, o := range append(offsets, len(right)) {
			chunks = append(chunks, right[from:o])
			from = o
		}
		return chunks
	}
	for _, test := range []struct {
		name   string
		chunks [][]byte
		bound  bool
	}{
		{"one block", split(), true},
		{"details before requestUUID's block", split(at(`"requestUUID"`)), true}, // with callBackId
		{"callBackId begins a block", split(at(`"callBackId"`)), true},
		{"callBackId in the block before", split(at(`"address"`)), true}, // with requestUUID
		{"callBackId without its first quote", split(at(`callBackId`)), true},
		{"callBackId cut, details before requestUUID's block", split(at(`Id":"cb`), at(`"requestUUID"`)), false},
		{"callBackId without its last quote", split(behind(`"cb-1`), at(`"requestUUID"`)), false},
		{"callBackId whole, requestUUID's last quote cut", split(at(`"address"`), len(right)-2), false},
		{"two groups", split(at(`"chainName"`)), true},
		{"two groups, a block between", split(at(`"chainName"`), at(`"chainName"`)), true},
		{"symbol in a block of its own", split(at(`"symbol"`), at(`"amount"`)), false},
		{"address cut, both parts in bound blocks", split(at(`d398`)), false},
		{"amount's name cut", split(at(`mount"`)), false},
		{"amount's last quote cut", split(behind(`"2.5`)), false},
		{"blocks of one byte", cut(right, 1), false},
		{"blocks of 110 bytes", cut(right, 110), false},
		{"1024 bit, cut behind chainName", cut(right, at1024), true},
		{"2048 bit", cut(right, 245), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			chunks := slices.DeleteFunc(slices.Clone(test.chunks), func(c []byte) bool { return len(c) == 0 })
			row := judgeRow{response: answers(rightWithdrawal), open: opened(chunks...), reason: client.ReasonAnswerUnbound, alarm: client.AlarmAnswerUnusable}
			confirmed := judgeRow{response: row.response, open: row.open, outcome: client.AttemptAccepted, reason: client.ReasonAccepted,
				decision: countersign.DecisionConfirmed}
			if test.bound {
				row = confirmed
			}
			row.run(t, testQuestion(false))
			confirmed.run(t, testQuestion(true)) // an order to compare is enough
			confirmed.change = func(q *Question) { q.Collect = client.CollectAny }
			confirmed.run(t, testQuestion(false))
		})
	}
	// Lengths that are not those of the plaintext bind nothing.
	for _, blocks := range [][]int{nil, {}, {len(right) - 1}, {len(right) + 1}, {len(right), 0}, {-1, len(right) + 1}} {
		judgeRow{response: answers(rightWithdrawal), reason: client.ReasonAnswerUnbound, alarm: client.AlarmAnswerUnusable,
			open: func(data string) ([]byte, []int, error) { return []byte(data), blocks, nil }}.run(t, testQuestion(false))
	}
}

// honest is an answer that a merchant may give: any order of members, unknown
// ones, white space and escapes, and texts that a user of it chose.
type honest struct {
	callBackID, user, uuid string
	details                countersign.Details
	extra                  [][2]string // name, JSON value
}

// write returns the answer as some writer of JSON would.
func (h honest) write(t *rapid.T, fixed []int) []byte {
	members := [][2]string{
		{"type", "2"}, {"tenantUserId", quote(t, h.user)}, {"callBackId", quote(t, h.callBackID)}, {"address", quote(t, h.details.Address)},
		{"chainName", quote(t, h.details.ChainName)}, {"symbol", quote(t, h.details.Symbol)}, {"amount", `"` + h.details.Amount.String() + `"`},
		{"requestUUID", `"` + h.uuid + `"`},
	}
	members = append(members, h.extra...)
	order := fixed
	if order == nil {
		order = permutation(t, len(members))
	}
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n  "}).Draw(t, "space")
	var b strings.Builder
	b.WriteByte('{')
	for i, at := range order {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s%q:%s%s", space, members[at][0], strings.TrimLeft(space, "\n"), members[at][1])
	}
	return []byte(b.String() + "}")
}

// quote writes text with the escapes of one of several writers.
func quote(t *rapid.T, text string) string {
	switch rapid.IntRange(0, 3).Draw(t, "escapes") {
	case 0:
		return `"` + strings.NewReplacer(`\`, `\u005c`, `"`, `\u0022`).Replace(text) + `"`
	case 1:
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `/`, `\/`).Replace(text) + `"`
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

func permutation(t *rapid.T, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return rapid.Permutation(list).Draw(t, "order")
}

// hostileText is text by which a user of the merchant would like to end a string,
// name a member or cut one short.
func hostileText(t *rapid.T, label string) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{
		`"`, `\`, `\"`, `","callBackId":"cb-1`, `"callBackId":"cb-1","address":"0xthief`, `callBackId":"cb-1"`, `address":"0xthief","chainName":"ETH`,
		`"amount":"9","requestUUID":"` + testUUID + `"`, `{`, `}`, `,`, `:`, ` `, `0`, `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`, `bbbbbbb`, `u0022`,
	}), 1, 5).Draw(t, label)
	return strings.Join(parts, "")
}

// The blocks of honest answers, joined in whatever order and number, confirm
// nothing but what one of the answers to this callBackId said: over all orders of
// members, lengths, blocks and spellings, with texts that an opponent chose, and
// with several answers to this very attempt, as replays of its request bring them.
func TestPropertyJoinedBlocksConfirmNothingElse(t *testing.T) {
	confirmed, spliced, unboundOther := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		chunk := rapid.SampledFrom([]int{62, at1024, at1024, at1024, at1024, 190, 245, 80, 33}).Draw(t, "chunk")
		said := testDetails()
		said.Amount = mustAmount(rapid.SampledFrom([]string{"2.5", "11111111", "1000.0000001"}).Draw(t, "amount"))
		if rapid.Bool().Draw(t, "hostile order") { // the thief owns this order too
			said.Address = hostileText(t, "own address")
		}
		// One writer with one order of members, or one that changes it.
		var order []int
		unknown := rapid.IntRange(0, 2).Draw(t, "unknown members")
		if rapid.Bool().Draw(t, "one order") {
			order = permutation(t, 8+unknown)
		}
		extra := func() (list [][2]string) {
			for i := range unknown {
				value := fmt.Sprint(rapid.IntRange(0, 100_000).Draw(t, "number"))
				switch rapid.IntRange(0, 3).Draw(t, "kind") {
				case 0:
					value = quote(t, hostileText(t, "memo"))
				case 1:
					value = `{"address":` + quote(t, hostileText(t, "memo")) + `,"amount":"9","list":[1,"x"]}`
				}
				list = append(list, [2]string{fmt.Sprint("memo", i), value})
			}
			return list
		}
		var pool [][]byte
		var first [][]byte
		add := func(h honest) {
			size := chunk
			if rapid.IntRange(0, 9).Draw(t, "short chunks") == 0 {
				size = rapid.IntRange(1, chunk).Draw(t, "chunk of its own")
			}
			blocks := cut(h.write(t, order), size)
			if first == nil {
				first = blocks
			}
			pool = append(pool, blocks...)
		}
		for range rapid.IntRange(1, 3).Draw(t, "answers to this attempt") {
			add(honest{"cb-1", "user-1", testUUID, said, extra()})
		}
		for range rapid.IntRange(0, 2).Draw(t, "answers to an earlier attempt") {
			add(honest{"cb-1", "user-1", otherUUID, said, extra()})
		}
		for range rapid.IntRange(1, 2).Draw(t, "answers to the thief's orders") {
			d := countersign.Details{Address: "0x7e1ef7e1ef7e1ef7e1ef7e1ef7e1ef7e1ef7e1e0", ChainName: "ETH", Symbol: "USDT", Amount: mustAmount("9.5")}
			if rapid.Bool().Draw(t, "hostile address") {
				d.Address = hostileText(t, "address")
			}
			id := rapid.SampledFrom([]string{"cb-2", "cb-10", "x", `cb-2","callBackId":"cb-1`, hostileText(t, "callBackId")}).Draw(t, "thief's callBackId")
			user := rapid.SampledFrom([]string{"user-1", "user-2", hostileText(t, "user")}).Draw(t, "thief's user")
			add(honest{id, user, rapid.SampledFrom([]string{otherUUID, otherUUID[:35] + "0"}).Draw(t, "thief's attempt"), d, extra()})
		}
		q := testQuestion(false)
		try := func(chunks [][]byte, isHonest bool) {
			r := answers("sealed")
			v := Judge(q, r, opened(chunks...))
			if v.Reason == client.ReasonAnswerUnbound && !isHonest {
				if a, err := countersign.ParseAnswer(countersign.TypeRequestWithdraw, bytes.Join(chunks, nil)); err == nil && a.(countersign.WithdrawalAnswer).Details.Differs(said) != "" {
					unboundOther++ // what would have moved money
				}
			}
			if v.Decision != countersign.DecisionConfirmed {
				return
			}
			confirmed++
			if !isHonest {
				spliced++
			}
			if v.Details.Address != said.Address || v.Details.ChainName != said.ChainName || v.Details.Symbol != said.Symbol || !v.Details.Amount.Equal(said.Amount) {
				t.Fatalf("confirmed %+v of\n%q", v.Details, chunks)
			}
		}
		try(first, true)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "joins"), 0))
		// All joins of up to three blocks, where those are not too many.
		for n := range 3 {
			joins := 1
			for range n + 1 {
				joins *= len(pool)
			}
			if joins > 4000 {
				break
			}
			for join := range joins {
				chunks := make([][]byte, n+1)
				for i := range chunks {
					chunks[i], join = pool[join%len(pool)], join/len(pool)
				}
				try(chunks, false)
			}
		}
		for range 400 {
			chunks := make([][]byte, 1+random.IntN(6))
			for i := range chunks {
				chunks[i] = pool[random.IntN(len(pool))]
			}
			try(chunks, false)
		}
		// One honest answer with some of its blocks from others.
		for range 400 {
			chunks := slices.Clone(first)
			for range 1 + random.IntN(2) {
				chunks[random.IntN(len(chunks))] = pool[random.IntN(len(pool))]
			}
			try(chunks, false)
		}
	})
	t.Logf("%d confirmed, %d of them joined; %d joined answers with other details were unbound", confirmed, spliced, unboundOther)
	// The few cases of -short may have none of a kind.
	if !testing.Short() && (confirmed == 0 || spliced == 0 || unboundOther == 0) {
		t.Errorf("the answers prove nothing: %d confirmed, %d of them joined, %d others unbound", confirmed, spliced, unboundOther)
	}
}
