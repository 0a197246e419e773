package admin

import (
	"context"

	"countersign/internal/audit"
	"countersign/internal/jsonapi"
)

// audit answers the routes of the audit log.
func (s *Server) audit() jsonapi.Audit {
	return jsonapi.Audit{Log: s.Audit, Subject: func(ctx context.Context, withdrawal, callback string) (audit.Subject, error) {
		if withdrawal == "" {
			return s.Lists.Subject(ctx, callback)
		}
		if _, err := s.Lists.Withdrawal(ctx, withdrawal); err != nil {
			return audit.Subject{}, err
		}
		return s.Lists.Subject(ctx, withdrawal)
	}}
}
