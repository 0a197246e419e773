package admin

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// guarded are the members of a merchant that say where its money goes and who decides on it. Once there has been an
// approver's token, they change only with an approval.
var guarded = func() []string {
	list := []string{"requestKey", "responseKey", "rotation"}
	for _, s := range client.Settings() {
		if s.Money {
			list = append(list, s.Name)
		}
	}
	return list
}()

// differences returns the members in which two states of a merchant differ. decides reports whether one of them is
// guarded.
func differences(was, is *outbox.Merchant) (before, after map[string]string, decides bool) {
	before, after = was.Differences(is)
	for _, name := range guarded {
		_, has := after[name]
		decides = decides || has
	}
	return before, after, decides
}

// change changes a merchant, or proposes the change if it touches a guarded member. content is what apply of the kind
// needs to do the same. If the change waits, task is the id of its task.
func (s *Server) change(c *api.Call, kind api.ChangeKind, id string, content any,
	apply func(*outbox.Merchant) error) (m outbox.Merchant, task string, err error) {
	ctx := c.R.Context()
	for {
		was, err := s.Outbox.Merchant(ctx, id)
		if err != nil {
			return was, "", err
		}
		is := was
		if err := apply(&is); err != nil {
			return is, "", err
		}
		before, after, decides := differences(&was, &is)
		if !decides {
			m, err := s.Outbox.ChangeMerchant(ctx, id, was.Version, c.Now, apply, nil)
			if errors.Is(err, outbox.ErrVersion) {
				continue
			}
			return m, "", err
		}
		sealed, err := json.Marshal(content)
		if err != nil {
			return is, "", err
		}
		change := &api.Change{Kind: kind, Merchant: id, Version: was.Version, Before: before, After: after,
			ProposedBy: c.Token.ID, Proposed: c.Now}
		switch err := s.Changes.Propose(ctx, change, sealed); {
		case errors.Is(err, api.ErrStale): // another was faster
			continue
		case err != nil:
			return is, "", err
		case change.State == client.TaskOpen:
			return is, change.TaskID(), nil
		}
		is.Version, is.Updated = was.Version+1, c.Now
		return is, "", nil
	}
}

// applied returns the Apply of a kind with the content T. patch changes the merchant.
func applied[T any](s *Server, patch func(*outbox.Merchant, T) error) api.ApplyChange {
	return func(ctx context.Context, c *api.Change, content []byte, now db.Millis,
		also func(context.Context, *db.Tx) error) error {
		var in T
		if err := json.Unmarshal(content, &in); err != nil {
			return err
		}
		_, err := s.Outbox.ChangeMerchant(ctx, c.Merchant, c.Version, now, func(m *outbox.Merchant) error {
			was := *m
			if err := patch(m, in); err != nil {
				return err
			}
			if _, after, _ := differences(&was, m); !maps.Equal(after, c.After) {
				return api.ErrStale // such as another default of this node
			}
			return nil
		}, also)
		if errors.Is(err, outbox.ErrVersion) {
			return api.ErrStale
		}
		return err
	}
}
