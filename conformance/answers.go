package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"countersign"
	"countersign/countersigntest"
)

// Answer is what a callback gets. The zero Answer accepts it.
type Answer struct {
	Fault countersigntest.MerchantFault
	Code  countersign.ErrCode // in place of an answer; 0: none
}

// ParseAnswer reads what a person types: y or nothing to accept, an errCode, or the name of a
// fault; n is errCode 2004.
func ParseAnswer(text string) (Answer, error) {
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "decline"))
	code, err := strconv.Atoi(text)
	switch fault := countersigntest.MerchantFault(text); {
	case text == "" || text == "y":
		return Answer{}, nil
	case text == "n":
		return Answer{Code: countersign.CodeRefusedPerson}, nil
	case fault.About() != "":
		return Answer{Fault: fault}, nil
	case err == nil && code != 0:
		return Answer{Code: countersign.ErrCode(code)}, nil
	}
	return Answer{}, fmt.Errorf("%q is neither y, n, an errCode, nor a fault", text)
}

// ReadOrders reads the orders that are confirmed from a JSON file, one or an array; an empty path has
// none. With anyOrder every other one is confirmed too, with the details of the one of the file, or made-up ones.
func ReadOrders(path string, anyOrder bool) (orders []Order, err error) {
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if json.Unmarshal(data, &orders) != nil {
			orders = make([]Order, 1)
			if err := json.Unmarshal(data, &orders[0]); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	if anyOrder {
		d := countersigntest.Order(1)
		o := Order{Address: d.Address, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount.String()}
		if len(orders) == 1 {
			o = orders[0]
			o.CallBackID, o.TenantUserID = "", ""
		}
		orders = append(orders, o)
	}
	return orders, nil
}

// Asking is a ListenerConfig.Ask that asks at a terminal, and gives usual when nobody answers any more.
func Asking(in io.Reader, out io.Writer, usual Answer) func(string) Answer {
	lines := bufio.NewReader(in)
	return func(what string) Answer {
		for {
			fmt.Fprintf(out, "%s: y, n, an errCode, or a fault? ", what)
			line, err := lines.ReadString('\n')
			if err != nil && line == "" {
				return usual
			}
			answer, err := ParseAnswer(line)
			if err == nil {
				return answer
			}
			fmt.Fprintln(out, err)
		}
	}
}
