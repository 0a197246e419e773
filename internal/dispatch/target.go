package dispatch

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// TargetRules says which targets callbacks may go to. The zero TargetRules allows public addresses and https only.
type TargetRules struct {
	// AllowPrivate allows targets on loopback and private networks, on any port. The addresses where cloud providers
	// serve a machine's credentials stay forbidden.
	AllowPrivate bool
	// AllowHTTP allows http targets and port 80. For development.
	AllowHTTP bool
	// Ports are the ports allowed on public addresses. Nil: DefaultPorts.
	Ports []uint16
}

// DefaultPorts are the ports of merchants on public addresses.
var DefaultPorts = []uint16{443, 8443}

// ErrURL is wrapped by all errors of CheckURL. They never repeat the URL.
var ErrURL = errors.New("URL not allowed")

// maxURL bounds a target's URL in bytes.
const maxURL = 2048

// CheckURL returns an error if p does not allow callbacks to raw. It looks at the text alone: names are resolved, and
// their addresses checked, when a connection is made.
func CheckURL(raw string, p TargetRules) error {
	_, err := parseTarget(raw, p)
	return err
}

func parseTarget(raw string, p TargetRules) (*url.URL, error) {
	refuse := func(why string) (*url.URL, error) { return nil, fmt.Errorf("%w: %s", ErrURL, why) }
	if len(raw) > maxURL {
		return refuse("it is longer than " + strconv.Itoa(maxURL) + " bytes")
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] <= ' ' || raw[i] >= 0x7f {
			return refuse("it holds a space, a control character or a character outside ASCII")
		}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return refuse("it is not a URL")
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme == "http" && p.AllowHTTP:
	case u.Scheme == "http":
		return refuse("it must be https, unless the service runs with --allow-http")
	default:
		return refuse("it must start with https://")
	}
	host := u.Hostname()
	switch {
	case u.User != nil:
		return refuse("it holds a user or a password")
	case strings.Contains(raw, "#"):
		return refuse("it has a fragment")
	case host == "" || u.Opaque != "":
		return refuse("it has no host")
	}
	port := uint16(443)
	if u.Scheme == "http" {
		port = 80
	}
	if text := u.Port(); text != "" || strings.HasSuffix(u.Host, ":") {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return refuse("its port is not between 1 and 65535")
		}
		port = uint16(n)
	}
	g := guardian(p)
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return refuse("its address has a zone")
		}
		if isMetadata(ip) || g.SafeAddrPort(netip.AddrPortFrom(ip.Unmap(), port)) != nil {
			return refuse("its address is private or its port is not one that callbacks go to; see serve --allow-private and --merchant-ports")
		}
		return u, nil
	}
	if looksNumeric(host) {
		// Forms such as 127.1 and 0x7f000001: resolvers differ on them, and no merchant needs them.
		return refuse("its host is neither a name nor an address in its usual form")
	}
	if !p.AllowPrivate && isLocalName(host) {
		return refuse("its host names this machine, which needs --allow-private at the service")
	}
	// With a public address in place of the name, only the port is checked.
	if g.SafeAddrPort(netip.AddrPortFrom(publicAddress, port)) != nil {
		return refuse("its port is not one that callbacks go to; see serve --merchant-ports")
	}
	return u, nil
}

var publicAddress = netip.AddrFrom4([4]byte{1, 1, 1, 1})

// looksNumeric reports whether the last label of host cannot be a top-level domain: a resolver may take host for a
// number.
func looksNumeric(host string) bool {
	last := strings.TrimSuffix(host, ".")
	last = last[strings.LastIndexByte(last, '.')+1:]
	return last == "" || last[0] >= '0' && last[0] <= '9'
}

func isLocalName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

var (
	privateV4 = []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("100.64.0.0/10"),
	}
	privateV6 = []netip.Prefix{netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fc00::/7")}
)

// guardian returns the check of addresses and ports under p.
func guardian(p TargetRules) *ssrf.Guardian {
	if p.AllowPrivate {
		return ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(privateV4...),
			ssrf.WithAllowedV6Prefixes(privateV6...))
	}
	ports := p.Ports
	if ports == nil {
		ports = DefaultPorts
	}
	if p.AllowHTTP {
		ports = append(slices.Clone(ports), 80)
	}
	return ssrf.New(ssrf.WithPorts(ports...))
}

// metadata are the addresses where cloud providers serve a machine's credentials. Some lie in private networks. The
// link-local ones are refused anyway; they are listed so that the list is complete.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),         // AWS, Azure, Google and most others
	netip.MustParsePrefix("fe80::/10"),              // the same in IPv6
	netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba
	netip.MustParsePrefix("168.63.129.16/32"),       // Azure's host, a public address
	netip.MustParsePrefix("fd00:ec2::/32"),          // AWS
	netip.MustParsePrefix("fd20:ce::254/128"),       // Google
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle
	netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway
}

// translators are prefixes of IPv6 addresses that end in an IPv4 address, to which a router translates them (RFC 6052,
// RFC 8215).
var translators = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48")}

// isMetadata reports whether ip, or the IPv4 address in it, is one of metadata.
func isMetadata(ip netip.Addr) bool {
	ip = ip.Unmap()
	if slices.ContainsFunc(translators, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	return slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// dialControl checks the resolved address that is about to be dialled, so that a second look-up cannot replace it.
func dialControl(p TargetRules) func(network, address string, c syscall.RawConn) error {
	g := guardian(p)
	return func(network, address string, c syscall.RawConn) error {
		if to, err := netip.ParseAddrPort(address); err == nil && isMetadata(to.Addr()) {
			return fmt.Errorf("%w: %s is where a cloud keeps credentials", ssrf.ErrProhibitedIP, to.Addr())
		}
		return g.Safe(network, address, c)
	}
}
