//go:build linux

package deploy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// boot makes the process that runs it the first of a system of its own: the files of $LOWER
// under a layer that takes all changes, its own processes, network and cgroups, and a
// systemd that knows no unit of this machine. $1 is a directory, $2 a new cgroup, $3 the
// repository, which may be where the new system has something else. With $4 it ends
// before systemd begins.
const boot = `
echo 0 > "$2/cgroup.procs"
exec unshare --cgroup sh -ec '
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=$LOWER,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs sys/fs
mkdir sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
mkdir checkout
mount --bind "$2" checkout
for dir in run tmp dev; do mount -t tmpfs tmpfs $dir; done
for device in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 dev/${device%:*} c 1 ${device#*:}; done
mkdir dev/pts
touch dev/console
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
rm -rf etc/systemd/system
mkdir etc/systemd/system
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-udevd-kernel.socket systemd-udevd-control.socket systemd-remount-fs.service \
	systemd-tmpfiles-setup.service dev-mqueue.mount dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount \
	sys-fs-fuse-connections.mount; do
	ln -s /dev/null etc/systemd/system/$unit
done
echo "[Unit]" > etc/systemd/system/test.target
pivot_root . mnt
cd /
umount -l mnt
mount --make-rshared /
[ -z "$3" ] || exit 0
exec env -i PATH="$PATH" container=test /lib/systemd/systemd --unit=test.target --show-status=no
' sh "$1" "$3" "$4"`

// machine is a running system of that kind.
type machine struct {
	t   *testing.T
	pid int
}

func bootMachine(t *testing.T, lower string) *machine {
	t.Helper()
	cgroups := "/sys/fs/cgroup"
	if m := regexp.MustCompile(`(?m)^cgroup2 (\S+) `).FindStringSubmatch(read(t, "/proc/mounts")); m != nil {
		cgroups = m[1]
	}
	group := filepath.Join(cgroups, fmt.Sprintf("countersign-units-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("skipped: root may not make a cgroup on this machine: %v", err)
	}
	repository, err := filepath.Abs("..")
	ok(t, err)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command("sh", append([]string{"-ec", boot, "sh", t.TempDir(), group, repository}, args...)...)
		cmd.Env = append(os.Environ(), "LOWER="+lower)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
			Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET}
		return cmd
	}
	if out, err := command("dry").CombinedOutput(); err != nil {
		_ = os.Remove(group)
		t.Skipf("skipped: root may not make namespaces, mounts or cgroups on this machine: %v\n%s", err, out)
	}
	cmd := command()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	ok(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // and with the first process all others
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
		// The deepest first.
		var groups []string
		_ = filepath.WalkDir(group, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				groups = append([]string{path}, groups...)
			}
			return nil
		})
		for _, path := range groups {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		}
	})
	m := &machine{t, cmd.Process.Pid}
	m.until("systemd runs", func() bool {
		out, _ := m.try("systemctl is-system-running")
		return strings.TrimSpace(out) == "running"
	})
	return m
}

// try runs a script on the machine, in the repository.
func (m *machine) try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target", fmt.Sprint(m.pid), "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--root",
		"env", "-i", "HOME=/root", "PATH="+os.Getenv("PATH"), "sh", "-ec", "cd /checkout\n"+script)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) run(script string) string {
	m.t.Helper()
	out, err := m.try(script)
	if err != nil {
		log, _ := m.try("journalctl --no-pager -n 30")
		m.t.Fatalf("%s: %v\n%s\n%s", script, err, out, log)
	}
	return strings.TrimSpace(out)
}

func (m *machine) until(what string, is func() bool) {
	m.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			log, _ := m.try("journalctl --no-pager -n 30")
			m.t.Fatalf("not within %v: %s\n%s", patience, what, log)
		}
	}
}

// ready waits for the daemon of a port.
func (m *machine) ready(port int) {
	m.t.Helper()
	m.until("it is ready", func() bool {
		_, err := m.try(fmt.Sprintf("countersign health --ready --api http://127.0.0.1:%d", port))
		return err == nil
	})
}

// Commands of root at each end.
const (
	servicesEnd  = "COUNTERSIGN_DATA=/var/lib/countersign countersign "
	merchantsEnd = "COUNTERSIGN_DATA=/var/lib/countersign-gateway countersign "
)

// addShop adds the merchant, which is on this machine, as a page says, and starts its gateway. Both daemons are well
// shut in.
func (m *machine) addShop(add, start string) {
	m.t.Helper()
	m.run(strings.ReplaceAll(add, "https://shop.example", "http://127.0.0.1:8090"))
	m.run(start)
	m.ready(8091)
	for _, unit := range []string{"countersign-serve", "countersign-gateway"} {
		m.run("systemd-analyze security --no-pager --threshold=15 " + unit)
	}
}

// deposit has a deposit taken, and waits until the merchant has accepted it.
func (m *machine) deposit(id string) {
	m.t.Helper()
	m.run(servicesEnd + `api addDeposits -d '{"merchant": "shop", "trackingId": "` + id + `", "tenantUserId": "7", "chainName": "ETH", "symbol": "WETH",
		"amount": "7.4", "txId": "0x` + id + `", "txIndex": 5, "fromAddress": "0xef1c", "toAddress": "0x7054", "riskLevelFrom": 44, "riskLevelTo": 40}'`)
	m.until(id+" is accepted", func() bool { return strings.Contains(m.run(servicesEnd+"callbacks list state=accepted"), id) })
}

// TestUnitsRun installs both daemons as docs/operator/README.md says, under a live systemd, sends a
// deposit and a withdrawal through, kills the service, replaces its master key and restores
// a backup, all as root does.
func TestUnitsRun(t *testing.T) {
	if os.Getenv("COUNTERSIGN_UNITS") == "" {
		t.Skip("skipped: without COUNTERSIGN_UNITS=1 no systemd is started")
	}
	for _, name := range []string{"/lib/systemd/systemd", "unshare", "nsenter", "ss"} {
		tool(t, name)
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root starts a systemd")
	}
	// The commands of the page. The first builds on this machine, and the second only copies what
	// it built.
	page := notRun(t, "systemd")
	build, rest, _ := strings.Cut(page[0], "install -m 0755 countersign /usr/local/bin/\n")
	if !strings.Contains(build, " go build ") || strings.Count(build, "\n") != 1 || strings.Count(rest, "\n") != 3 || !strings.Contains(page[2], "countersign-gateway.service") {
		t.Fatalf("docs/operator/README.md has other commands: %q, %q", page[0], page[2])
	}
	binary := filepath.Join(t.TempDir(), "countersign")
	run(t, "..", "sh", "-ec", strings.Replace(build, " -o countersign ", " -o "+binary+" ", 1))
	built, err := os.ReadFile(binary)
	ok(t, err)
	m := bootMachine(t, "/")
	root := fmt.Sprintf("/proc/%d/root", m.pid)
	ok(t, os.WriteFile(root+"/usr/local/bin/countersign", built, 0o755))

	m.run("mkdir -p /etc/countersign; printf 'COUNTERSIGN_ALLOW_PRIVATE=true\\nCOUNTERSIGN_ALLOW_HTTP=true\\n' > /etc/countersign/serve.env")
	m.run(rest)
	m.ready(8080)
	m.addShop(page[1], page[2])
	if out := m.run("cat /proc/sys/net/core/somaxconn; ss -ltnH sport = :8090"); !regexp.MustCompile(`^(\d+)\nLISTEN +0 +(\d+) `).MatchString(out) {
		t.Errorf("the gateway listens as %q", out)
	} else if f := strings.Fields(out); f[0] != f[3] {
		t.Errorf("%s connections may wait, and the system allows %s", f[3], f[0])
	}

	// A deposit, a withdrawal, and all that root does about them.
	m.deposit("first")
	const order = `"callBackId": "order", "tenantUserId": "7", `
	const details = `"address": "TJ", "chainName": "TRON", "symbol": "USDT", "amount": "1.5"`
	m.run(merchantsEnd + "api addOrder -d '{" + order + details + "}'")
	m.run(servicesEnd + `api createWithdrawal -d '{"merchant": "shop", ` + order + `"details": {` + details + "}}'")
	m.until("the withdrawal is confirmed", func() bool {
		_, err := m.try(servicesEnd + "withdrawals release shop/order claim=a")
		return err == nil
	})
	m.run("kill -9 $(systemctl show -p MainPID --value countersign-serve)")
	m.ready(8080)
	if n := m.run("systemctl show -p NRestarts --value countersign-serve"); n != "1" {
		t.Errorf("it was started again %s times", n)
	}
	m.deposit("second")
	m.run("systemctl stop countersign-serve")
	if how := m.run("systemctl show -p Result -p ExecMainStatus --value countersign-serve"); how != "success\n0" && how != "0\nsuccess" {
		t.Errorf("it ended with %q", how)
	}
	m.run(servicesEnd + "rekey")
	m.run("systemctl start countersign-serve")
	m.ready(8080)
	m.run(servicesEnd + "backup --to /root/backup.db")
	m.run("systemctl stop countersign-serve")
	m.run(servicesEnd + "restore --replace --from /root/backup.db")
	m.run("systemctl start countersign-serve")
	m.ready(8080)
	m.deposit("third")
}
