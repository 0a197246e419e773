package sim

import (
	"context"

	"countersign/client"
	"countersign/envelope"
)

// signs are the keys of the signed link, which half of the seeds have. Nil: nothing is signed.
type signs struct {
	merchants map[string]*envelope.SigningKey
	service   *envelope.SigningKey // the public part
}

func newSigns() *signs {
	return &signs{merchants: map[string]*envelope.SigningKey{"shop": envelope.GenerateSigningKey(), "rogue": envelope.GenerateSigningKey()}}
}

// answerKey is what the service knows of a merchant's key.
func (s *signs) answerKey(merchant string) string {
	if s == nil {
		return ""
	}
	return s.merchants[merchant].PublicBase64()
}

// learn reads the service's key, which all its merchants are shown.
func (s *signs) learn(ctx context.Context, operator *client.Service) error {
	if s == nil {
		return nil
	}
	m, err := operator.Merchant(ctx, "shop")
	if err == nil {
		s.service, err = envelope.ParseSigningKey([]byte(m.ServiceSigningKey))
	}
	return err
}

// of returns a merchant's key, and that of the service.
func (s *signs) of(merchant string) (own, service *envelope.SigningKey) {
	if s == nil {
		return nil, nil
	}
	return s.merchants[merchant], s.service
}
