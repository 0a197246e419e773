package api

import "countersign/client"

// nodes lists the processes of the end.
func (o Common) nodes(c *Call, _ None, _ None) (client.Nodes, error) {
	out := client.Nodes{Nodes: []client.Node{}}
	rows, err := o.Lists.Nodes(c.R.Context(), c.Now)
	for _, n := range rows {
		out.Nodes = append(out.Nodes, client.Node{
			Name: n.Name, Version: n.Version, Started: TimeOf(n.Started), Seen: TimeOf(n.Seen),
			Silent: n.Silent(c.Now), Self: n.ID == o.Node,
		})
	}
	return out, err
}
