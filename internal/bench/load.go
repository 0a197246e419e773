package bench

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

// load makes what is sent. All merchants share one pair: thousands of pairs would
// take longer to make than to measure, and the service reads the key of each
// merchant separately in any case.
type load struct {
	pair        *envelope.Key
	private     string
	apiKey      countersign.APIKey
	callbackKey countersign.APIKey
	details     countersign.Details

	plain, answer []byte // plaintexts of one deposit and its answer
}

func newLoad(bits int) (*load, error) {
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
	l := &load{
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

// deposit makes deposit n of a set. Its members are as long as those of a real one
// on TRON, about 450 bytes of plaintext in all.
func (l *load) deposit(merchant, set string, n int) client.NewDeposit {
	sum := sha256.Sum256([]byte(set + "/" + strconv.Itoa(n)))
	tx := hex.EncodeToString(sum[:])
	sum = sha256.Sum256([]byte(set))
	amount, err := countersign.ParseAmount(fmt.Sprintf("%d.%06d", 1+n%5000, n%1_000_000))
	if err != nil {
		panic(err) // cannot be: digits and a point
	}
	to := "TX" + tx[:32]
	return client.NewDeposit{
		Merchant: merchant, TrackingID: fmt.Sprintf("%x-%04d", sum[:5], n), TenantUserID: strconv.Itoa(10_000 + n%90_000),
		TxID: tx, ChainName: "TRON", Symbol: "USDT", Amount: amount, FromAddress: "TF" + tx[32:], ToAddress: to, NewAddress: &to,
		RiskLevelFrom: 10, RiskLevelTo: 5, TxIndex: -1,
	}
}

// payload is the plaintext that the API makes of d, before it is bound.
func (l *load) payload(d client.NewDeposit) ([]byte, error) {
	return (&countersign.Deposit{
		Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: d.TrackingID, TenantUserID: d.TenantUserID}, TxID: d.TxID,
		ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress,
		RiskLevelFrom: d.RiskLevelFrom, RiskLevelTo: d.RiskLevelTo, TxIndex: d.TxIndex, NewAddress: *d.NewAddress,
	}).Marshal()
}

// row makes deposit n of a set as the database takes it.
func (l *load) row(merchant, set string, n int) (outbox.NewCallback, error) {
	d := l.deposit(merchant, set, n)
	payload, err := l.payload(d)
	return outbox.NewCallback{Merchant: d.Merchant, Type: countersign.TypeDeposited, EventID: d.TrackingID,
		TrackingID: d.TrackingID, TxID: d.TxID, Payload: payload, Deadline: db.Never}, err
}

// withdrawal makes withdrawal n of a set.
func (l *load) withdrawal(merchant, set string, n int) client.NewWithdrawal {
	return client.NewWithdrawal{
		Merchant: merchant, CallBackID: fmt.Sprintf("%s-withdrawal-%08d", set, n), TenantUserID: fmt.Sprintf("user-%08d", n),
		Details: &client.Details{Address: l.details.Address, ChainName: l.details.ChainName, Symbol: l.details.Symbol, Amount: l.details.Amount},
	}
}

// rsaBound is what RSA alone allows. The RSA of a callback is that of both ends:
// the service seals the request, the merchant opens it and seals the answer, the
// service opens that.
type rsaBound struct {
	perSecond float64 // callbacks on all cores, with one or two operations at once on each, whichever gives more
	oneEach   float64 // callbacks on all cores, with one operation at once on each
	cpu       float64 // seconds of processor a callback
}

// halfway is the mean of two bounds, for what ran between them.
func (a rsaBound) halfway(b rsaBound) rsaBound {
	return rsaBound{(a.perSecond + b.perSecond) / 2, (a.oneEach + b.oneEach) / 2, (a.cpu + b.cpu) / 2}
}

// rsaFor measures the bound for about that long. Where RSA is written in C, as in
// the fast build, two operations at once on each core give more than one: Go
// takes the processor from a goroutine whose call into C takes long, and the core
// idles for a moment unless another goroutine waits for it.
func (l *load) rsaFor(ctx context.Context, long time.Duration) (rsaBound, error) {
	cores := runtime.GOMAXPROCS(0)
	var rate, cpu [2]float64
	for _, twice := range []int{0, 1, 1, 0} { // in this order each comes once early and once late
		r, c, err := perSecondOf(ctx, (1+twice)*cores, long/4, func(int) error { return l.roundTrip() })
		if err != nil {
			return rsaBound{}, err
		}
		rate[twice] += r / 2
		cpu[twice] += c / 2
	}
	return rsaBound{max(rate[0], rate[1]), rate[0], cpu[1]}, nil
}

// roundTrip does the RSA of one callback, that of both ends.
func (l *load) roundTrip() error {
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
		return errors.New("the RSA library did not open what it had sealed")
	}
	return nil
}

// bodies gives the lengths of the bodies of one exchange.
func (l *load) bodies() (request, response int, err error) {
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

// rsaOperation is one of the four RSA operations of a callback.
type rsaOperation struct {
	name   string
	blocks int
	do     func() error
}

func (l *load) rsaOperations() ([]rsaOperation, error) {
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
