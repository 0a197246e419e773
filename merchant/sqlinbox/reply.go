package sqlinbox

import (
	"encoding/json"
	"fmt"

	"countersign/merchant"
)

func formatReply(r merchant.Reply) string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // a struct of texts and a number
	}
	return string(text)
}

func parseReply(text []byte) (r merchant.Reply, err error) {
	if err = json.Unmarshal(text, &r); err != nil {
		err = fmt.Errorf("the recorded reply: %w", err)
	}
	return r, err
}
