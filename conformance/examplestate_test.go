package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
)

// effectsIn counts the deposits in the state file of an example.
func effectsIn(file string) func(context.Context, string) (int, error) {
	return func(_ context.Context, id string) (n int, err error) {
		data, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var record struct {
				Taken    string `json:"taken"`
				Callback struct {
					Type       int    `json:"type"`
					TrackingID string `json:"trackingId"`
				} `json:"callback"`
			}
			if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
				return n, err
			}
			if record.Taken != "" && record.Callback.Type == 1 && record.Callback.TrackingID == id {
				n++
			}
		}
		return n, lines.Err()
	}
}
