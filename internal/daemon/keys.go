package daemon

import (
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/journal"
	"countersign/merchant"
)

// signingKey describes the end's key pair of the signed link.
func signingKey(k *envelope.SigningKey) client.Key {
	return client.Key{Kind: client.KeySigning, Fingerprint: k.Fingerprint()}
}

// gatewayKeys describes the keys in a gateway's settings.
func gatewayKeys(c merchant.Config) (list []client.Key) {
	add := func(kind client.KeyKind, fingerprint string) {
		for _, k := range list {
			if k.Kind == kind && k.Fingerprint == fingerprint {
				return
			}
		}
		list = append(list, client.Key{Kind: kind, Fingerprint: fingerprint})
	}
	add(client.KeyRequest, c.Key.Fingerprint())
	response := c.ResponseKey
	if response == nil {
		response = c.Key
	}
	add(client.KeyResponse, response.Fingerprint())
	if next := c.NextKey; next != nil {
		add(client.KeyRequest, next.Fingerprint())
		switch {
		case c.NextResponseKey != nil:
			add(client.KeyResponse, c.NextResponseKey.Fingerprint())
		case c.ResponseKey == nil:
			add(client.KeyResponse, next.Fingerprint())
		}
	}
	add(client.KeyAPI, journal.Fingerprint(c.APIKey.Reveal()))
	for _, k := range c.CallbackAPIKeys {
		add(client.KeyCallbackAPI, journal.Fingerprint(k.Reveal()))
	}
	return list
}
