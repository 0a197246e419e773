package dispatch

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"code.dny.dev/ssrf"

	"countersign/client"
)

// hostile are addresses that no callback may go to over the internet's policy.
var hostile = []string{
	"127.0.0.1", "127.1.2.3", "127.255.255.254", "::1",
	"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255",
	"169.254.169.254", "169.254.0.1", "169.254.170.2",
	"100.64.0.1", "100.100.100.200", "100.127.255.255",
	"fc00::1", "fd00:ec2::254", "fdff::1", "fe80::1", "febf::1", "fec0::1",
	"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:7f00:1", "::127.0.0.1",
	"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1",
	"0.0.0.0", "0.1.2.3", "::",
	"224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1", "ff00::1", "ff02::1", "ff05::1:3",
	"198.18.0.1", "198.19.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "198.51.100.1", "203.0.113.1",
	"192.88.99.1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001::1", "2001:0:7f00:1::", "2001:db8::1", "100::1", "5f00::1",
}

// dialled returns what the check of a dialled address under p says of each form of ip: as written, and as the dialer
// writes it.
func dialled(p TargetRules, ip netip.Addr, port uint16) (errs []error) {
	for _, form := range []netip.Addr{ip, ip.Unmap()} {
		network := "tcp6"
		if form.Is4() {
			network = "tcp4"
		}
		errs = append(errs, dialControl(p)(network, netip.AddrPortFrom(form, port).String(), nil))
	}
	return errs
}

// denied reports an address that is dialled under p, or named in a URL.
func denied(t *testing.T, p TargetRules, port uint16, list ...string) {
	t.Helper()
	for _, text := range list {
		ip := netip.MustParseAddr(text)
		for _, err := range dialled(p, ip, port) {
			if !errors.Is(err, ssrf.ErrProhibitedIP) {
				t.Errorf("%s under %+v: %v", text, p, err)
			}
		}
		host := text
		if ip.Is6() {
			host = "[" + host + "]"
		}
		if err := CheckURL("https://"+host+"/callback", p); !errors.Is(err, ErrURL) {
			t.Errorf("URL with %s under %+v: %v", host, p, err)
		}
	}
}

func TestHostileAddressesAreDenied(t *testing.T) {
	denied(t, TargetRules{}, 443, hostile...)
	denied(t, TargetRules{AllowHTTP: true}, 443, hostile...)
	denied(t, TargetRules{AllowPrivate: true, AllowHTTP: true}, 80,
		"169.254.169.254", "169.254.0.1", "169.254.170.2", "169.254.255.255", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd00:ec2::23",
		"fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fe80::1", "fe80::a9fe:a9fe", "::ffff:169.254.169.254", "::ffff:100.100.100.200",
		"64:ff9b::a9fe:a9fe", "64:ff9b::6464:64c8", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:1::6464:64c8", "2002:a9fe:a9fe::1", "64:ff9b::7f00:1",
		"0.0.0.0", "224.0.0.1", "255.255.255.255", "ff02::1", "::")
	for _, c := range []struct {
		rules TargetRules
		want  error
		list  []string
	}{
		{TargetRules{}, nil, []string{"1.1.1.1:443", "93.184.216.34:8443", "172.32.0.1:443", "[2606:4700::1111]:443"}},
		{TargetRules{}, ssrf.ErrProhibitedPort, []string{"1.1.1.1:80", "1.1.1.1:22", "1.1.1.1:6379", "1.1.1.1:0"}},
		{TargetRules{AllowPrivate: true}, nil, []string{"127.0.0.1:1", "10.1.2.3:8080", "172.20.0.1:80", "192.168.1.1:9000", "100.64.1.1:443", "1.1.1.1:5000",
			"[::1]:8080", "[fd00::1]:80"}},
	} {
		for _, text := range c.list {
			at := netip.MustParseAddrPort(text)
			if err := dialled(c.rules, at.Addr(), at.Port())[0]; !errors.Is(err, c.want) {
				t.Errorf("%s under %+v: %v", text, c.rules, err)
			}
		}
	}
	if err := dialControl(TargetRules{})("udp4", "1.1.1.1:443", nil); err == nil {
		t.Error("another network than TCP is allowed")
	}
}

func TestCheckURL(t *testing.T) {
	http, private, port := TargetRules{AllowHTTP: true}, TargetRules{AllowPrivate: true}, TargetRules{Ports: []uint16{9443}}
	for _, c := range []struct {
		rules     TargetRules
		good, bad []string
	}{
		{TargetRules{}, []string{"https://merchant.example/notify", "https://merchant.example:8443/notify?a=b", "https://merchant.example",
			"https://merchant.example./x", "https://1.1.1.1/x", "HTTPS://merchant.example/x"}, []string{
			"http://merchant.example/x", "https://localhost/x", "https://a.localhost/x", "https://localhost./x", "https://merchant.example:22/x",
			"https://merchant.example:/x", "https://user@merchant.example/x", "https://user:hunter2@merchant.example/x", "https://@merchant.example/x",
			"https://merchant.example/x#part", "https://merchant.example/x#", "https:///x", "https:merchant.example", "//merchant.example/x",
			"merchant.example/x", "", "https://merchant.example/a b", "https://merchant.example/a\r\nX: y", "https://merchant.example/\x00",
			"https://mérchant.example/", "https://127.1/", "https://0x7f000001/", "https://2130706433/", "https://017700000001/",
			"https://127.0.0.1.:443/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://" + strings.Repeat("a", 2100) + ".example/"}},
		{http, []string{"http://merchant.example/x"}, []string{"http://merchant.example:8080/x", "http://127.0.0.1/x"}},
		{private, []string{"https://127.0.0.1:8080/x", "https://localhost/x", "https://merchant.example:22/x"}, []string{"http://127.0.0.1:8080/x",
			"https://169.254.169.254/latest", "https://merchant.example:0/x", "https://merchant.example:65536/x", "https://[fe80::1%25eth0]/"}},
		{TargetRules{AllowPrivate: true, AllowHTTP: true}, []string{"http://127.0.0.1:8080/x"}, []string{"ftp://merchant.example/x", "file:///etc/passwd"}},
		{port, []string{"https://merchant.example:9443/x", "https://1.1.1.1:9443/x"}, []string{"https://merchant.example/x", "https://10.0.0.1:9443/x"}},
		{TargetRules{Ports: port.Ports, AllowHTTP: true}, []string{"http://merchant.example/x"}, nil},
	} {
		for _, url := range c.good {
			if err := CheckURL(url, c.rules); err != nil {
				t.Errorf("%q under %+v: %v", url, c.rules, err)
			}
		}
		for _, url := range c.bad {
			err := CheckURL(url, c.rules)
			if !errors.Is(err, ErrURL) {
				t.Errorf("%q under %+v: %v wraps no ErrURL", url, c.rules, err)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "example")) {
				t.Errorf("%q: the error repeats the URL: %v", url, err)
			}
		}
	}
}

// TestNamesWithHostileAddressesAreDenied: a name that resolves to a hostile address is stopped at the moment of
// connecting.
func TestNamesWithHostileAddressesAreDenied(t *testing.T) {
	rt := roundTripper(TargetRules{}, nil)
	defer rt.CloseIdleConnections()
	r := (&transport{public: rt}).post(t.Context(), request{url: &url.URL{Scheme: "https", Host: "localhost"}, body: []byte("x")})
	if r.Failure != client.ReasonBlockedAddress {
		t.Errorf("%+v", r)
	}
}
