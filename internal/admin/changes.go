package admin

import (
	"context"
	"encoding/json"
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
// needs to do the same. If the change waits, task is the id of its task, and m is as it was.
func (s *Server) change(c *api.Call, kind api.ChangeKind, id string, content any,
	apply func(*outbox.Merchant) error) (m outbox.Merchant, task string, err error) {
	sealed, err := json.Marshal(content)
	if err != nil {
		return m, "", err
	}
	err = s.Outbox.Write(c.R.Context(), func(ctx context.Context, t *db.Tx) error {
		was, err := s.Outbox.LockMerchant(ctx, t, id)
		if err != nil {
			return err
		}
		m, task = was, ""
		if err := apply(&m); err != nil {
			return err
		}
		before, after, decides := differences(&was, &m)
		if !decides {
			return s.Outbox.StoreMerchant(ctx, t, &was, &m, c.Now)
		}
		change := &api.Change{Kind: kind, Merchant: id, Version: was.Version, Before: before, After: after,
			ProposedBy: c.Token.ID, Proposed: c.Now}
		if err := s.Changes.Propose(ctx, t, change, sealed); err != nil {
			return err
		}
		if task = c.TaskOf(change); task != "" {
			m = was
			return nil
		}
		m.Version, m.Updated = was.Version+1, c.Now
		return nil
	})
	return m, task, err
}

// applied returns the Apply of a kind with the content T. patch changes the merchant.
func applied[T any](s *Server, patch func(*outbox.Merchant, T) error) api.ApplyChange {
	return func(ctx context.Context, t *db.Tx, c *api.Change, content []byte, now db.Millis) error {
		var in T
		if err := json.Unmarshal(content, &in); err != nil {
			return err
		}
		_, err := s.Outbox.ChangeMerchant(ctx, t, c.Merchant, now, func(m *outbox.Merchant) error {
			was := *m
			if err := patch(m, in); err != nil {
				return err
			}
			if _, after, _ := differences(&was, m); was.Version != c.Version || !maps.Equal(after, c.After) {
				return api.ErrStale // such as another default of this node
			}
			return nil
		})
		return err
	}
}
