package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/merchant"
)

// auditKey names the key that signs an audit log, by its public part.
func auditKey(l *journal.Log) client.Key {
	return client.Key{Kind: client.KeyAudit, Fingerprint: journal.Fingerprint(l.Key())}
}

// signingKey names the end's pair of the signed link.
func signingKey(k *envelope.SigningKey) client.Key {
	return client.Key{Kind: client.KeySigning, Fingerprint: k.Fingerprint()}
}

// gatewayKeys names the keys of a gateway's settings.
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

func oldestKeyDesc() *prometheus.Desc {
	return prometheus.NewDesc("countersign_oldest_key_seconds",
		"Seconds since the oldest key of a kind came into use; a kind without a key is absent.", []string{"kind"}, nil)
}

func collectAges(ages map[client.KeyKind]db.Millis, now db.Millis, desc *prometheus.Desc, ch chan<- prometheus.Metric) {
	for kind, since := range ages {
		if since != 0 {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, max(0, float64(now-since)/1000), string(kind))
		}
	}
}
