//go:build linux

package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// withRPM returns a root this machine's rpm, since a minimal Debian has none and Debian's
// brings a compiler's parts with it. In its database nothing provides what a package wants.
func withRPM(t *testing.T, root string) string {
	t.Helper()
	run(t, "", "bash", "-ec", `
{
	readlink -f "$(type -P rpm)"
	ldd "$(type -P rpm)" | grep -o '/[^ ]*'
	find /usr/lib/rpm -maxdepth 1 -type f
} | xargs cp --parents --no-clobber --dereference --target-directory "$1"
mkdir -p "$1/var/lib/rpm"
echo '%_dbpath /var/lib/rpm' >"$1/root/.rpmmacros"`, "bash", root)
	return root
}

// TestPackage builds the packages, twice with the same bytes, installs each on a minimal
// Debian, runs both daemons there under a live systemd, upgrades it and removes it: a
// deposit is in the gateway's database from first to last.
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
	dist := builtTwice(t)
	run(t, dist, "bash", "-ec", "lintian --display-info --fail-on error,warning,info *.deb")

	m := bootMachine(t, withRPM(t, cleanRoot(t)))
	root := fmt.Sprintf("/proc/%d/root", m.pid)
	run(t, dist, "bash", "-ec", `sha256sum -- * >SHA256SUMS; cp *.deb *.rpm SHA256SUMS "$1"`, "bash", root+"/root")
	install, start, _ := strings.Cut(notRun(t, "a Debian")[0], "systemctl")
	m.lives(packager{
		first:   func() { m.run("cd /root\n" + install) },
		again:   func() { m.run("dpkg -i /root/*.deb") },
		remove:  func() { m.run("dpkg --remove countersign") },
		changed: settingsFile,
	}, "systemctl"+start)
	if out := m.run("dpkg --purge countersign"); !strings.Contains(out, "/var/lib/countersign is kept") {
		t.Errorf("the purge says nothing of the data: %s", out)
	}
	m.run("test -s /var/lib/countersign/master.key; test -s /var/lib/countersign-gateway/master.key; test ! -e " + settingsFile)
	m.run("rm -r /var/lib/countersign /var/lib/countersign-gateway /etc/countersign; for end in '' -gateway -relay; do userdel countersign$end; done")
	if left := m.run("find / -xdev -name '*countersign*' ! -path '/root/*'"); left != "" {
		t.Errorf("the purge left\n%s", left)
	}

	m.lives(packager{
		first:   func() { m.run("rpm --nodeps --force-debian --install /root/*.rpm") },
		again:   func() { m.run("rpm --nodeps --force-debian --upgrade --replacepkgs /root/*.rpm") },
		remove:  func() { m.run("rpm --nodeps --force-debian --erase countersign") },
		changed: settingsFile + ".rpmsave",
	}, "systemctl"+start)
}

const settingsFile = "/etc/countersign/countersign.toml"

// packager installs for the first time, over what is there and once more, and removes. What
// changed is where it then keeps settings that were changed.
type packager struct {
	first, again, remove func()
	changed              string
}

// lives is an installation from its first day to its removal. The commands that start are
// those of docs/operator/README.md.
func (m *machine) lives(p packager, start string) {
	t := m.t
	t.Helper()
	p.first()
	for _, unit := range []string{"serve", "gateway", "relay"} {
		if out, _ := m.try("systemctl is-enabled countersign-" + unit + " || true; systemctl is-active countersign-" + unit); !strings.Contains(out, "disabled") || !strings.Contains(out, "inactive") {
			t.Errorf("the installation started or enabled %s: %s", unit, out)
		}
	}
	m.run("id countersign; id countersign-gateway; id countersign-relay; countersign --version")
	if out := m.run("find /etc/countersign /usr/bin/countersign /usr/lib/systemd/system/countersign-* /usr/share/doc/countersign -printf '%u:%g %m %y\n' | sort -u"); out != "root:root 644 f\nroot:root 755 d\nroot:root 755 f" {
		t.Errorf("the files belong to and are\n%s", out)
	}

	// One file is edited: the merchant is on this machine.
	m.run(`sed -i -e '/^\[serve\]/a allow-private = true\nallow-http = true' ` + settingsFile)
	m.run(start)
	m.ready(8080)
	// The commands of the page, but for the files that the package installs.
	m.addShop(notRun(t, "systemd")[1], "systemctl enable --now countersign-gateway")
	if out := m.run("stat -c '%U %a' /var/lib/countersign/master.key /var/lib/countersign-gateway/master.key"); out != "countersign 600\ncountersign-gateway 600" {
		t.Errorf("the master keys belong to\n%s", out)
	}
	m.deposit("d-1")
	booked := func(when string) {
		t.Helper()
		m.until("the deposit is booked "+when, func() bool {
			out, err := m.try(merchantsEnd + "deposits list")
			return err == nil && strings.Contains(out, `"d-1"`)
		})
	}
	booked("at first")

	// An upgrade starts anew what runs, and leaves the settings alone.
	const pid = "systemctl show -p MainPID --value countersign-serve"
	before := m.run(pid)
	p.again()
	if after := m.run(pid); after == before || after == "0" {
		t.Errorf("the upgrade left process %s, then %s", before, after)
	}
	m.run("grep -q '^allow-private' " + settingsFile)
	m.ready(8080)
	m.ready(8091)
	booked("after an upgrade")

	p.remove()
	if out, _ := m.try("systemctl is-active countersign-serve countersign-gateway || true; ls /usr/bin/countersign"); strings.Count(out, "inactive") != 2 || !strings.Contains(out, "No such file") {
		t.Errorf("after the removal: %s", out)
	}
	m.run("grep -q '^allow-private' " + p.changed)
	p.again()
	if p.changed != settingsFile {
		m.run("mv " + p.changed + " " + settingsFile)
	}
	m.run("systemctl start countersign-serve countersign-gateway")
	m.ready(8091)
	booked("after a removal")
	p.remove()
	m.run("test -s /var/lib/countersign/master.key; test -s /var/lib/countersign-gateway/master.key; test ! -e /lib/systemd/system/countersign-serve.service")
}

// builtTwice builds the packages of this tree in two copies, of which another user in another
// time zone may have made the second, and says where they are if both have the same bytes.
func builtTwice(t *testing.T) string {
	t.Helper()
	build := func(from, umask string, env ...string) string {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "copy")
		cmd := exec.Command("bash", "-ec", `
umask "$2"
git clone -q --no-checkout . "$1"
git -C "$1" reset -q
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
	xargs -0 cp --parents --target-directory "$1"
bash "$1/deploy/release-build.sh" "$1/dist" binaries packages`, "bash", dir, umask)
		cmd.Dir, cmd.Env = from, append(os.Environ(), append(env, "COUNTERSIGN_ARCHES=amd64")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return dir
	}
	first := build("..", "022")
	one, another := filepath.Join(first, "dist"), filepath.Join(build(first, "077", "TZ=Asia/Tokyo", "USER=somebody"), "dist")
	built, _ := filepath.Glob(one + "/*")
	if len(built) != 3 {
		t.Fatalf("built %q", built)
	}
	for _, path := range built {
		if read(t, path) != read(t, filepath.Join(another, filepath.Base(path))) {
			t.Errorf("two builds of %s differ", filepath.Base(path))
		}
	}
	return one
}
