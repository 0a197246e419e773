package api

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
)

// Nodes makes the answer of the route that lists the processes of an end. self is the id
// of the one that answers.
func Nodes(c *Call, list func(context.Context) ([]db.Node, error), self string) (client.Nodes, error) {
	out := client.Nodes{Nodes: []client.Node{}}
	rows, err := list(c.R.Context())
	for _, n := range rows {
		out.Nodes = append(out.Nodes, client.Node{
			Name: n.Name, Version: n.Version, Started: TimeOf(n.Started), Seen: TimeOf(n.Seen),
			Silent: c.Now-n.Seen >= db.Millis(db.NodeSilent.Milliseconds()), Self: n.ID == self,
		})
	}
	return out, err
}
