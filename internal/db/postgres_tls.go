package db

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// saysTLS reports whether a database URL itself sets its use of TLS. Settings in the environment do not count,
// because a reader of the URL does not see them.
func saysTLS(raw string) bool {
	raw, _, _ = strings.Cut(raw, "#")
	_, query, _ := strings.Cut(raw, "?")
	values, err := url.ParseQuery(query)
	said := append(values["sslmode"], values["ssl"]...)
	return err == nil && len(said) > 0 && !slices.Contains(said, "")
}

// verifyRemote makes every server of c that is not on this machine prove the name in the URL by a certificate, as
// sslmode=verify-full does. pgx's own default falls back to no TLS at all, so an attacker on the network could read
// everything and answer for the server.
func verifyRemote(c *pgx.ConnConfig) {
	hosts := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	asked := &tls.Config{} // with the URL's authorities and certificates, the same for all hosts
	for _, h := range hosts {
		if h.TLSConfig != nil {
			asked = h.TLSConfig
			break
		}
	}
	var kept []*pgconn.FallbackConfig
	for _, h := range hosts {
		if !onThisMachine(h) {
			if slices.ContainsFunc(kept, func(k *pgconn.FallbackConfig) bool { return k.Host == h.Host && k.Port == h.Port }) {
				continue // pgx lists a server twice, with TLS and without
			}
			t := asked.Clone()
			t.InsecureSkipVerify, t.VerifyPeerCertificate, t.VerifyConnection = false, nil, nil
			t.ServerName = h.Host
			h = &pgconn.FallbackConfig{Host: h.Host, Port: h.Port, TLSConfig: t}
		}
		kept = append(kept, h)
	}
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = kept[0].Host, kept[0].Port, kept[0].TLSConfig, kept[1:]
}

// onThisMachine reports whether h is reached by a socket or a loopback address.
func onThisMachine(h *pgconn.FallbackConfig) bool {
	if network, _ := pgconn.NetworkAddress(h.Host, h.Port); network == "unix" {
		return true
	}
	ip, err := netip.ParseAddr(h.Host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(h.Host, "localhost")
}

// explainTLS adds to err what to write in the URL, if verifyRemote is why a server cannot be reached.
func explainTLS(err error) error {
	// pgx has no type for a server that refuses TLS. Errors of package tls begin with these texts.
	if text := err.Error(); !strings.Contains(text, "tls error") && !strings.Contains(text, "tls: ") {
		return err
	}
	return fmt.Errorf("%w\nthe database URL has no sslmode, so servers off this machine must prove their names: write sslrootcert=FILE where "+
		"an authority of your own signed their certificates, or sslmode=disable where the network between is trusted", err)
}
