package daemon

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"countersign/internal/api"
)

// ownHosts refuses requests for any host other than this machine and names. Whoever owns a name can make it resolve to
// the loopback address. A page of that name could then read what a listener there answers, because to the browser both
// are one site (DNS rebinding).
func ownHosts(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := strings.ToLower(hostOf(r.Host))
		ip := net.ParseIP(host)
		own := host == "" || host == "localhost" || ip != nil && ip.IsLoopback() // browsers always send one
		if own || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, host) }) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		api.WriteProblem(w, api.NewProblem(http.StatusMisdirectedRequest,
			fmt.Sprintf("this listener does not answer to the host %q: "+
				"use localhost or its address, or allow the host with --allowed-host if a proxy passes it on", host)))
	})
}

// hostOf returns the host of a Host header: a name or an address, with or without a port.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
}
