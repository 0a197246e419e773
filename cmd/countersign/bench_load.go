package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// benchLoad makes what is sent. All merchants share one pair: making thousands
// would take longer than measuring them, and the service opens and reads each
// merchant's key for itself all the same.
type benchLoad struct {
	pair        *envelope.Key
	private     string
	apiKey      countersign.APIKey
	callbackKey countersign.APIKey
	details     countersign.Details

	plain, answer []byte // of one deposit
}

func newBenchLoad(bits int) (*benchLoad, error) {
	pair, err := envelope.GenerateKey(bits)
	if err != nil {
		return nil, err
	}
	private, err := pair.PrivatePEM()
	if err != nil {
		return nil, err
	}
	amount, err := countersign.ParseAmount("20.000000")
	if err != nil {
		return nil, err
	}
	l := &benchLoad{
		pair: pair, private: string(private),
		apiKey: countersign.APIKey("bench-" + rand.Text()), callbackKey: countersign.APIKey("bench-" + rand.Text()),
		details: countersign.Details{Address: "TW" + strings.Repeat("x", 32), ChainName: "TRON", Symbol: "USDT", Amount: amount},
	}
	payload, err := l.payload(l.deposit("sample", "sample", 0))
	if err != nil {
		return nil, err
	}
	if l.plain, _, err = countersign.Bind(payload, [6]byte{1, 2, 3}); err != nil {
		return nil, err
	}
	cb, err := countersign.ParseCallback(l.plain, countersign.ParseOptions{})
	if err != nil {
		return nil, err
	}
	l.answer, err = cb.(*countersign.Deposit).Answer().Marshal()
	return l, err
}

// deposit number n of a set. The lengths are those of a real one on TRON, about
// 450 bytes of plaintext.
func (l *benchLoad) deposit(merchant, set string, n int) client.NewDeposit {
	sum := sha256.Sum256([]byte(set + "/" + strconv.Itoa(n)))
	tx := hex.EncodeToString(sum[:])
	sum = sha256.Sum256([]byte(set))
	amount, err := countersign.ParseAmount(fmt.Sprintf("%d.%06d", 1+n%5000, n%1_000_000))
	if err != nil {
		panic(err) // digits and a point
	}
	to := "TX" + tx[:32]
	return client.NewDeposit{
		Merchant: merchant, TrackingID: fmt.Sprintf("%x-%04d", sum[:5], n), TenantUserID: strconv.Itoa(10_000 + n%90_000),
		TxID: tx, ChainName: "TRON", Symbol: "USDT", Amount: amount, FromAddress: "TF" + tx[32:], ToAddress: to, NewAddress: &to,
		RiskLevelFrom: 10, RiskLevelTo: 5, TxIndex: -1,
	}
}

// payload is what the API makes of d.
func (l *benchLoad) payload(d client.NewDeposit) ([]byte, error) {
	return (&countersign.Deposit{
		Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: d.TrackingID, TenantUserID: d.TenantUserID}, TxID: d.TxID,
		ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress,
		RiskLevelFrom: d.RiskLevelFrom, RiskLevelTo: d.RiskLevelTo, TxIndex: d.TxIndex, NewAddress: *d.NewAddress,
	}).Marshal()
}

// rows are n deposits as the store takes them, given to the merchants in turn.
func (l *benchLoad) rows(merchants []string, set string, from, n int) ([]outbox.NewCallback, error) {
	list := make([]outbox.NewCallback, n)
	for i := range list {
		d := l.deposit(merchants[(from+i)%len(merchants)], set, from+i)
		payload, err := l.payload(d)
		if err != nil {
			return nil, err
		}
		list[i] = outbox.NewCallback{Merchant: d.Merchant, Type: countersign.TypeDeposited, EventID: d.TrackingID,
			TrackingID: d.TrackingID, TxID: d.TxID, Payload: payload, Deadline: db.Never}
	}
	return list, nil
}

// withdrawal number n of a set.
func (l *benchLoad) withdrawal(merchant, set string, n int) client.NewWithdrawal {
	return client.NewWithdrawal{
		Merchant: merchant, CallBackID: fmt.Sprintf("%s-withdrawal-%08d", set, n), TenantUserID: fmt.Sprintf("user-%08d", n),
		Details: &client.Details{Address: l.details.Address, ChainName: l.details.ChainName, Symbol: l.details.Symbol, Amount: l.details.Amount},
	}
}

// rsaBound is what nothing but RSA costs of one callback, both ends together: the
// request sealed by the service and opened by the merchant, the answer sealed by
// the merchant and opened by the service.
type rsaBound struct {
	perSecond float64 // callbacks on all cores: the better of one and two operations at once on each
	oneEach   float64 // the same with one
	cpu       float64 // seconds of processor each
}

// halfway is between two bounds, for what ran between them.
func (a rsaBound) halfway(b rsaBound) rsaBound {
	return rsaBound{(a.perSecond + b.perSecond) / 2, (a.oneEach + b.oneEach) / 2, (a.cpu + b.cpu) / 2}
}

// rsaFor measures the bound for about that long. Two operations at once on each
// core give more where RSA is in C, as in the fast build: Go takes the core away
// from a goroutine that is there for long, and where nothing else is to be run,
// part of that core stands idle.
func (l *benchLoad) rsaFor(ctx context.Context, long time.Duration) (rsaBound, error) {
	cores := runtime.GOMAXPROCS(0)
	var rate, cpu [2]float64
	for _, twice := range []int{0, 1, 1, 0} { // what went before disturbs both alike
		r, c, err := perSecondOf(ctx, (1+twice)*cores, long/4, func(int) error { return l.roundTrip() })
		if err != nil {
			return rsaBound{}, err
		}
		rate[twice] += r / 2
		cpu[twice] += c / 2
	}
	return rsaBound{max(rate[0], rate[1]), rate[0], cpu[1]}, nil
}

// roundTrip does the RSA of one callback.
func (l *benchLoad) roundTrip() error {
	public := l.pair.Public()
	sealed, err := envelope.Seal(l.pair, envelope.PKCS1v15, l.plain)
	if err != nil {
		return err
	}
	opened, err := envelope.Open(public, envelope.PKCS1v15, sealed)
	if err != nil {
		return err
	}
	answer, err := envelope.Seal(public, envelope.PKCS1v15, l.answer)
	if err != nil {
		return err
	}
	back, err := envelope.Open(l.pair, envelope.PKCS1v15, answer)
	if err != nil {
		return err
	}
	if !bytes.Equal(opened, l.plain) || !bytes.Equal(back, l.answer) {
		return errors.New("RSA does not give back what was sealed")
	}
	return nil
}

// bodies is how long the bodies of one exchange are.
func (l *benchLoad) bodies() (request, response int, err error) {
	sealed, err := envelope.Seal(l.pair, envelope.PKCS1v15, l.plain)
	if err != nil {
		return 0, 0, err
	}
	data, err := envelope.Seal(l.pair.Public(), envelope.PKCS1v15, l.answer)
	if err != nil {
		return 0, 0, err
	}
	answer, err := countersign.Response{APIKey: l.apiKey, Data: string(data)}.Marshal()
	return len(sealed), len(answer), err
}

// rsaOperation is one of the four of a callback.
type rsaOperation struct {
	name   string
	blocks int
	do     func() error
}

func (l *benchLoad) rsaOperations() ([]rsaOperation, error) {
	public := l.pair.Public()
	sealed, err := envelope.Seal(l.pair, envelope.PKCS1v15, l.plain)
	if err != nil {
		return nil, err
	}
	answer, err := envelope.Seal(public, envelope.PKCS1v15, l.answer)
	if err != nil {
		return nil, err
	}
	requests, answers := l.pair.Blocks(envelope.PKCS1v15, len(l.plain)), l.pair.Blocks(envelope.PKCS1v15, len(l.answer))
	seal := func(key *envelope.Key, plain []byte) func() error {
		return func() error { _, err := envelope.Seal(key, envelope.PKCS1v15, plain); return err }
	}
	open := func(key *envelope.Key, body []byte) func() error {
		return func() error { _, err := envelope.Open(key, envelope.PKCS1v15, body); return err }
	}
	return []rsaOperation{
		{"service seals request, private", requests, seal(l.pair, l.plain)},
		{"merchant opens request, public", requests, open(public, sealed)},
		{"merchant seals answer, public", answers, seal(public, l.answer)},
		{"service opens answer, private", answers, open(l.pair, answer)},
	}, nil
}
