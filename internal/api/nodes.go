package api

import (
	"countersign/client"
	"countersign/internal/db"
)

// nodes lists the processes of the end.
func (o Common) nodes(c *Call, _ None, _ None) (client.Nodes, error) {
	out := client.Nodes{Nodes: []client.Node{}}
	rows, err := o.Lists.Nodes(c.R.Context())
	for _, n := range rows {
		out.Nodes = append(out.Nodes, client.Node{
			Name: n.Name, Version: n.Version, Started: TimeOf(n.Started), Seen: TimeOf(n.Seen),
			Silent: c.Now-n.Seen >= db.Millis(db.NodeSilent.Milliseconds()), Self: n.ID == o.Node,
		})
	}
	return out, err
}
