package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"countersign"
	"countersign/conformance"
	"countersign/envelope"
)

// effects is a Config.Effects.
type effects = func(context.Context, []string) ([]conformance.Credit, error)

// effectsIn returns the deposits in the state file of an example that were credited.
func effectsIn(file string) effects {
	return func(context.Context, []string) (credits []conformance.Credit, err error) {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var record struct {
				Taken    string `json:"taken"`
				Suspect  bool   `json:"possibleDuplicate"`
				Callback struct {
					Type       int    `json:"type"`
					TrackingID string `json:"trackingId"`
					Amount     string `json:"amount"`
				} `json:"callback"`
			}
			if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
				return nil, err
			}
			if record.Taken != "" && !record.Suspect && record.Callback.Type == 1 {
				credits = append(credits, conformance.Credit{TrackingID: record.Callback.TrackingID, Amount: record.Callback.Amount})
			}
		}
		return credits, lines.Err()
	}
}

// creditsIn returns the credits in the database of the Go example, and checks that the
// balances are their sums.
func creditsIn(file string) effects {
	return func(ctx context.Context, _ []string) (credits []conformance.Credit, err error) {
		db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)")
		if err != nil {
			return nil, err
		}
		defer db.Close()
		// One statement, so that a deposit that comes meanwhile is in both or in neither.
		rows, err := db.QueryContext(ctx, `SELECT 1, tracking_id, user_id || ' ' || symbol, amount FROM credits
			UNION ALL SELECT -1, '', user_id || ' ' || symbol, amount FROM balances`)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		difference := map[string]*big.Rat{}
		for rows.Next() {
			var sign int64
			var id, of, text string
			if err := rows.Scan(&sign, &id, &of, &text); err != nil {
				return nil, err
			}
			amount, ok := new(big.Rat).SetString(text)
			if !ok {
				return nil, fmt.Errorf("the amount of %s is %q", of, text)
			}
			if sign > 0 {
				credits = append(credits, conformance.Credit{TrackingID: id, Amount: text})
			}
			if difference[of] == nil {
				difference[of] = new(big.Rat)
			}
			difference[of].Add(difference[of], amount.Mul(amount, big.NewRat(sign, 1)))
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
		for of, d := range difference {
			if d.Sign() != 0 {
				return nil, fmt.Errorf("the credits of %s less the balance are %s, not 0", of, d)
			}
		}
		return credits, nil
	}
}

const vectorKeyName = "rsa1024"

// vectorKey is the pair of the vectors, private part included.
func vectorKey(t *testing.T) *envelope.Key {
	t.Helper()
	armoured := must(os.ReadFile("../testdata/vectors/keys/" + vectorKeyName + ".pem"))(t)
	return must(envelope.ParseKey(armoured))(t)
}

// postVectors sends every body of the vectors that a holder of the public part
// opens, or does not, to an example that holds it: what opens elsewhere opens
// there, and what is refused elsewhere is refused there.
func postVectors(t *testing.T, url string) {
	data := must(os.ReadFile("../testdata/vectors/vectors.jsonl"))(t)
	n := 0
	for line := range bytes.Lines(data) {
		var v struct {
			Name, Key, Part, Padding, Body, Result, Binding, Message string
			Plaintext                                                []byte
		}
		ok(t, json.Unmarshal(line, &v))
		if v.Key != vectorKeyName || v.Part != "public" {
			continue
		}
		n++
		status, code := http.StatusBadRequest, countersign.CodeCannotOpen
		path := "/callbacks/notify"
		if v.Result == "opens" {
			cb, err := countersign.ParseCallback(v.Plaintext, countersign.ParseOptions{Lenient: true})
			switch {
			case errors.Is(err, countersign.ErrUnknownType):
				status, code = http.StatusOK, countersign.CodeUnknownType
			case err != nil:
				code = countersign.CodeMalformed
			case cb.CallbackType() == countersign.TypeRequestWithdraw:
				path, status, code = "/callbacks/withdraw", http.StatusOK, countersign.CodeUnknownOrder
			case strings.Contains(v.Name, "splice, first block"): // both genuine ones come before it
				status, code = http.StatusOK, countersign.CodeMalformed
			default:
				status, code = http.StatusOK, countersign.CodeAccepted
			}
		}
		gotStatus, gotCode := postBody(t, url+path, v.Body)
		if v.Binding == "broken" && gotStatus == http.StatusOK && (gotCode == countersign.CodeMalformed || gotCode == countersign.CodeDetailsDiffer) {
			continue // who looks at bindings may refuse it, also where they need not be there, and so does who knows its trackingId otherwise
		}
		if v.Message == "malformed" && code == countersign.CodeAccepted && gotStatus == http.StatusOK && gotCode == countersign.CodeMalformed {
			continue // a lenient merchant reads it, and may know its requestUUID from another vector (B5)
		}
		if v.Message == "malformed" && code == countersign.CodeUnknownOrder && gotStatus == http.StatusOK && gotCode == countersign.CodeDetailsDiffer {
			continue // a lenient merchant reads it, and may know its callBackId with other members
		}
		if code == countersign.CodeUnknownOrder && gotStatus == http.StatusOK && gotCode == countersign.CodeNotKnownYet {
			continue // a merchant may hold it while the order may still arrive
		}
		if gotStatus != status || gotCode != code {
			t.Errorf("%s: status %d, errCode %d; want %d, %d", v.Name, gotStatus, gotCode, status, code)
		}
	}
	if n < 50 {
		t.Errorf("only %d vectors", n)
	}
}

func postBody(t *testing.T, url, body string) (int, countersign.ErrCode) {
	t.Helper()
	req := must(http.NewRequest(http.MethodPost, url, bytes.NewReader([]byte(body))))(t)
	req.Header.Set("X-API-KEY", testCallbackKey)
	resp := must(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	var r struct {
		ErrCode countersign.ErrCode `json:"errCode"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		t.Fatalf("status %d: %v", resp.StatusCode, err)
	}
	return resp.StatusCode, r.ErrCode
}
