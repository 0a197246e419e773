package api

import (
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/client"
	"countersign/internal/db"
)

// TestNodes: a node is listed while it tells that it runs, is silent when it was killed, and
// leaves when it stops. A killed one is forgotten after a day; where one process at a time
// uses the database, as soon as the next one runs.
func TestNodes(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d *db.DB) {
		const start db.Millis = 1_750_000_000_000
		beat := func(id string, at db.Millis) {
			t.Helper()
			ok(t, d.Beat(t.Context(), db.Node{ID: id, Name: "host-" + id, Version: "v1", Started: start, Seen: at}))
		}
		want := func(what string, now db.Millis, want ...client.Node) {
			t.Helper()
			got, err := Common{Process: Process{Node: "b"}, Lists: d}.nodes(&Call{R: httptest.NewRequest("GET", "/v1/nodes", nil), Now: now}, None{}, None{})
			if diff := cmp.Diff(want, got.Items); err != nil || diff != "" {
				t.Errorf("%s: %v, %s", what, err, diff)
			}
		}
		a := client.Node{Name: "host-a", Version: "v1", Started: TimeOf(start), Seen: TimeOf(start)}
		b := client.Node{Name: "host-b", Version: "v1", Started: TimeOf(start), Seen: TimeOf(start + 40_000), Self: true}
		beat("a", start)
		want("one", start+29_999, a)
		a.Silent = true
		want("silent", start+30_000, a)
		beat("b", start+1)
		beat("b", start+40_000)
		if !d.Dialect().Shared {
			want("after a kill, where there is one process", start+40_000, b)
		} else {
			want("both", start+40_000, a, b)
			again := db.Node{ID: "c", Name: "host-a", Version: "v1", Started: start + 35_000, Seen: start + 35_000}
			ok(t, d.Beat(t.Context(), again))
			c := client.Node{Name: "host-a", Version: "v1", Started: TimeOf(start + 35_000), Seen: TimeOf(start + 35_000)}
			want("host-a was started again", start+40_000, c, b)
			ok(t, d.LeaveNode(t.Context(), "c"))
			const day = 24 * 3_600_000
			beat("b", start+day)
			b.Seen = TimeOf(start + day)
			want("a day later", start+day, a, b)
			beat("b", start+day+1)
			b.Seen = TimeOf(start + day + 1)
			want("more than a day later", start+day+1, b)
		}
		ok(t, d.LeaveNode(t.Context(), "b"))
		if list, err := d.Nodes(t.Context(), start); err != nil || len(list) > 0 {
			t.Errorf("after it stopped: %+v, %v", list, err)
		}
	})
}
