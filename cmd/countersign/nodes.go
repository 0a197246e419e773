package main

import (
	"context"
	"iter"
	"slices"

	"countersign/client"
)

type nodesCmd struct {
	eitherEnd
	listFlags
}

func (c *nodesCmd) Run(ctx context.Context, std streams, service *client.Service, gateway *client.Gateway) error {
	read := service.Nodes
	if c.Gateway {
		read = gateway.Nodes
	}
	nodes, err := read(ctx)
	if err != nil {
		return err
	}
	return list(std, c.listFlags, found(nodes), "NAME|STATE|STARTED|SEEN|VERSION", func(n client.Node) []any {
		state := "running"
		if n.Silent {
			state = "silent"
		}
		return []any{n.Name, state, n.Started, n.Seen, n.Version}
	})
}

// found is a list that was read at once.
func found[T any](l []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		slices.Values(l)(func(v T) bool { return yield(v, nil) })
	}
}
