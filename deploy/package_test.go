//go:build linux

package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cleanRoot makes a minimal Debian of the release that this machine has.
func cleanRoot(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	run(t, "", "bash", "-ec", `
. /etc/os-release
# This machine's own sources, wherever they are; apt shows those that it has fetched.
sources() {
	apt-get indextargets --format 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(REPO_URI) $(RELEASE) $(COMPONENT)' \
		'Identifier: Packages' 'Origin: Debian' | sort -u
}
[ -n "$(sources)" ] || apt-get update -q
sources |
	mmdebstrap --quiet --variant=minbase --include=systemd,init-system-helpers "$VERSION_CODENAME" "$1" -`, "bash", root)
	return root
}

// TestPackage builds the Debian package, installs it on a minimal Debian, runs both daemons
// there under a live systemd, upgrades it, removes it and purges it: a deposit is in the
// gateway's database from first to last.
func TestPackage(t *testing.T) {
	if os.Getenv("COUNTERSIGN_PACKAGE") == "" {
		t.Skip("skipped: without COUNTERSIGN_PACKAGE=1 no package is built and installed")
	}
	for _, name := range []string{"/lib/systemd/systemd", "unshare", "nsenter", "mmdebstrap", "lintian", "rpm", "git"} {
		tool(t, name)
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root starts a systemd")
	}
	dist := t.TempDir()
	build := exec.Command("bash", "release-build.sh", dist, "binaries", "packages")
	build.Env = append(os.Environ(), "COUNTERSIGN_ARCHES=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	packages, _ := filepath.Glob(dist + "/*.deb")
	redHat, _ := filepath.Glob(dist + "/*.rpm")
	if len(packages) != 1 || len(redHat) != 1 {
		t.Fatalf("built %q, %q", packages, redHat)
	}
	run(t, "", "lintian", "--fail-on", "error,warning", packages[0])
	if out := run(t, "", "rpm", "-qp", "--nosignature", "--list", "--scripts", redHat[0]); !strings.Contains(out, "/usr/lib/systemd/system/countersign-serve.service") || !strings.Contains(out, "systemd-sysusers") {
		t.Errorf("the .rpm has\n%s", out)
	}
	built, err := os.ReadFile(packages[0])
	if err != nil {
		t.Fatal(err)
	}

	m := bootMachine(t, cleanRoot(t))
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/root/root/countersign.deb", m.pid), built, 0o644); err != nil {
		t.Fatal(err)
	}
	const install = "dpkg -i /root/countersign.deb"
	m.run(install)
	for _, unit := range []string{"serve", "gateway", "relay"} {
		if out, _ := m.try("systemctl is-enabled countersign-" + unit + " || true; systemctl is-active countersign-" + unit); !strings.Contains(out, "disabled") || !strings.Contains(out, "inactive") {
			t.Errorf("the installation started or enabled %s: %s", unit, out)
		}
	}
	m.run("id countersign; id countersign-gateway; id countersign-relay; countersign version; test -s /usr/share/bash-completion/completions/countersign")

	ready := func(port int) {
		t.Helper()
		m.until("it is ready", func() bool {
			_, err := m.try(fmt.Sprintf("countersign health --ready --api http://127.0.0.1:%d", port))
			return err == nil
		})
	}
	// One file is edited: the merchant is on this machine.
	m.run(`sed -i -e '/^\[serve\]/a allow-private = true\nallow-http = true' /etc/countersign/countersign.toml`)
	m.run("systemctl enable --now countersign-serve")
	ready(8080)
	// The commands of the page, but for the files that the package installs.
	page := regexp.MustCompile("(?s)```sh not run: needs systemd[^\n]*\n(.*?)```").FindAllStringSubmatch(read(t, "../docs/install.md"), -1)
	m.run(strings.ReplaceAll(page[1][1], "https://shop.example", "http://127.0.0.1:8090"))
	m.run("systemctl enable --now countersign-gateway")
	ready(8091)
	for _, unit := range []string{"countersign-serve", "countersign-gateway"} {
		m.run("systemd-analyze security --no-pager --threshold=15 " + unit)
	}
	if out := m.run("stat -c '%U %a' /var/lib/countersign/master.key /var/lib/countersign-gateway/master.key"); out != "countersign 600\ncountersign-gateway 600" {
		t.Errorf("the master keys belong to\n%s", out)
	}
	m.run(`COUNTERSIGN_DATA=/var/lib/countersign countersign api addDeposits -d '{"merchant": "shop", "trackingId": "d-1", "tenantUserId": "7", "chainName": "ETH", "symbol": "WETH",
		"amount": "7.4", "txId": "0xd1", "txIndex": 5, "fromAddress": "0xef1c", "toAddress": "0x7054", "riskLevelFrom": 44, "riskLevelTo": 40}'`)
	booked := func(when string) {
		t.Helper()
		m.until("the deposit is booked "+when, func() bool {
			out, err := m.try("COUNTERSIGN_DATA=/var/lib/countersign-gateway countersign deposits list")
			return err == nil && strings.Contains(out, `"d-1"`)
		})
	}
	booked("at first")

	// An upgrade starts anew what runs, and leaves the settings alone.
	const pid = "systemctl show -p MainPID --value countersign-serve"
	before := m.run(pid)
	m.run(install)
	if after := m.run(pid); after == before || after == "0" {
		t.Errorf("the upgrade left process %s, then %s", before, after)
	}
	ready(8080)
	ready(8091)
	booked("after an upgrade")

	m.run("dpkg --remove countersign")
	if out, _ := m.try("systemctl is-active countersign-serve countersign-gateway || true; ls /usr/bin/countersign"); strings.Count(out, "inactive") != 2 || !strings.Contains(out, "No such file") {
		t.Errorf("after the removal: %s", out)
	}
	m.run("grep -q '^allow-private' /etc/countersign/countersign.toml")
	m.run(install)
	m.run("systemctl start countersign-serve countersign-gateway")
	ready(8091)
	booked("after a removal")
	if out := m.run("dpkg --purge countersign"); !strings.Contains(out, "/var/lib/countersign is kept") {
		t.Errorf("the purge says nothing of the data: %s", out)
	}
	m.run("test -s /var/lib/countersign/master.key; test -s /var/lib/countersign-gateway/master.key; test ! -e /etc/countersign/countersign.toml; test ! -e /lib/systemd/system/countersign-serve.service")
}
