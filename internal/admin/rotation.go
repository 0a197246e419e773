package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// defaultOverlap is how long the older keys of a merchant still count after the newer ones were activated.
const defaultOverlap = client.Duration(7 * 24 * time.Hour)

// rotationStep is a step of the replacement of a merchant's keys, and the content of its change.
type rotationStep struct {
	Step    string          `json:"step"`           // stage, activate, finish or cancel
	Keys    json.RawMessage `json:"keys,omitempty"` // outbox.ParseKeys reads them
	Overlap time.Duration   `json:"overlap"`
}

func (r rotationStep) apply(m *outbox.Merchant) error {
	switch r.Step {
	case "stage":
		k, err := outbox.ParseKeys(r.Keys)
		if err != nil {
			return err
		}
		return m.Stage(k)
	case "activate":
		return m.Activate(r.Overlap)
	case "finish":
		return m.Finish()
	case "cancel":
		return m.Cancel()
	}
	return fmt.Errorf("rotation is %w: step %q", db.ErrInvalid, r.Step)
}

func (s *Server) stageRotation(c *api.Call, id string, in client.NewRotation) (out client.StagedKeys, err error) {
	m, err := s.Outbox.Merchant(c.R.Context(), id)
	if err != nil {
		return out, err
	}
	if m.Rotation != nil {
		return out, outbox.ErrRotating // before keys are made for nothing
	}
	var faults api.Faults
	k := s.keyMaker(m.Scheme, &faults)
	if err := k.check(in.Key, in.ResponseKey, false); err != nil {
		return out, err
	}
	if in.MakeAPIKey && in.APIKey != "" {
		faults.Add("body.makeApiKey", "is given beside apiKey: give one of them")
	}
	if in.MakeCallbackAPIKey && in.CallbackAPIKey != "" {
		faults.Add("body.makeCallbackApiKey", "is given beside callbackApiKey: give one of them")
	}
	if err := faults.Err(); err != nil {
		return out, err
	}
	var fresh outbox.MerchantKeys
	out.APIKey, fresh.APIKey = apiKey(in.MakeAPIKey, in.APIKey)
	out.CallbackAPIKey, fresh.CallbackAPIKey = apiKey(in.MakeCallbackAPIKey, in.CallbackAPIKey)
	if in.Key != nil || in.ResponseKey != nil || fresh == (outbox.MerchantKeys{}) {
		if err := k.make(in.Key, in.ResponseKey, false); err != nil {
			return out, err
		}
	}
	step := rotationStep{Step: "stage"}
	fresh.Key, fresh.ResponseKey = k.request, k.response
	if step.Keys, err = fresh.Plain(); err != nil {
		return out, err
	}
	out.Warnings = k.warnings
	out.PublicKey, out.ResponsePublicKey = k.publicParts()
	is, err := s.takeStep(c, id, step)
	out.Rotation, out.Task = is.Rotation, is.Task
	return out, err
}

func (s *Server) activateRotation(c *api.Call, id string, in client.Activation) (client.UpdatedMerchant, error) {
	return s.takeStep(c, id, rotationStep{Step: "activate", Overlap: time.Duration(cmp.Or(in.Overlap, defaultOverlap))})
}

// step returns the handler of a step without members.
func (s *Server) step(name string) func(*api.Call, string, api.None) (client.UpdatedMerchant, error) {
	return func(c *api.Call, id string, _ api.None) (client.UpdatedMerchant, error) {
		return s.takeStep(c, id, rotationStep{Step: name})
	}
}

// takeStep does the step, or proposes it.
func (s *Server) takeStep(c *api.Call, id string, r rotationStep) (client.UpdatedMerchant, error) {
	_, task, err := s.change(c, api.ChangeRotation, id, r, r.apply)
	if err != nil {
		return client.UpdatedMerchant{}, err
	}
	m, err := s.Outbox.Merchant(c.R.Context(), id) // with its times
	return client.UpdatedMerchant{Merchant: merchantOf(m), Task: task}, err
}

// RunRotations ends the older keys of merchants at their time, on whichever node is first, until ctx ends.
func (s *Server) RunRotations(ctx context.Context) error {
	return api.Regularly(ctx, s.Outbox.Every(time.Second), s.Now, s.EndRotations,
		func(err error) { s.Log.Error("ending older keys failed", "error", err.Error()) })
}

// EndRotations ends the older keys of merchants whose time has come, and raises the alarm of a change.
func (s *Server) EndRotations(ctx context.Context, now db.Millis) error {
	ids, err := s.Outbox.EndedRotations(ctx, now)
	errs := []error{err}
	for _, id := range ids {
		errs = append(errs, s.Outbox.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			was, err := s.Outbox.LockMerchant(ctx, t, id)
			if err != nil || was.Rotation == nil || was.Rotation.Until() > now { // another was faster
				return err
			}
			m := was
			if err := m.Finish(); err != nil {
				return err
			}
			if err := s.Outbox.StoreMerchant(ctx, t, &was, &m, now); err != nil {
				return err
			}
			return db.RaiseAlarms(ctx, t, []client.Alarm{{Merchant: id, Kind: client.AlarmControlChanged,
				Subject: "older keys ended at the end of their overlap", First: now}})
		}))
	}
	return errors.Join(errs...)
}
