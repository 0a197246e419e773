package admin

import (
	"context"
	"errors"

	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// audit answers the routes of the audit log.
func (s *Server) audit() api.Audit {
	return api.Audit{Log: s.Audit, Subject: func(ctx context.Context, withdrawal, callback string) (journal.Subject, error) {
		if withdrawal == "" {
			subject, err := s.Lists.Subject(ctx, callback)
			if err == nil && len(subject.Items) == 0 { // its attempts may have been purged
				if _, err := s.Lists.Callback(ctx, callback); errors.Is(err, db.ErrPurged) {
					return subject, err
				}
			}
			return subject, err
		}
		if _, err := s.Lists.Withdrawal(ctx, withdrawal); err != nil {
			return journal.Subject{}, err
		}
		return s.Lists.Subject(ctx, withdrawal)
	}}
}
