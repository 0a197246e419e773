package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// patience bounds what does not end. A busy machine needs a part of it.
const patience = 4 * time.Minute

// imageUser is the user of the image.
const imageUser = 65532

// container runs the program as the image does, without an engine: as its user, with
// nothing but what the image and the volumes hold, of which it may write to /data alone,
// and in a network of its own. What an engine adds is not tested: capabilities, seccomp,
// published ports, restarts.
type container struct {
	t       *testing.T
	root    string
	network int // process in the network of all containers
	env     []string
	log     string // a file
}

// said is what the daemon has logged.
func (c *container) said() string { return read(c.t, c.log) }

// command is /countersign with args in the container.
func (c *container) command(args ...string) *exec.Cmd {
	user := strconv.Itoa(imageUser)
	chroot, err := exec.LookPath("chroot") // the container has no PATH
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command("nsenter", append([]string{"--net=/proc/" + strconv.Itoa(c.network) + "/ns/net",
		chroot, "--userspec=" + user + ":" + user, "--groups=", c.root, "/countersign"}, args...)...)
	cmd.Env = c.env
	return cmd
}

// exec is docker exec.
func (c *container) exec(args ...string) string {
	c.t.Helper()
	out, err := c.command(args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%q: %v\n%s\nlog:\n%s", args, err, out, c.said())
	}
	return string(out)
}

// ready waits until what Docker asks says that the daemon works.
func (c *container) ready(check []string) {
	c.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		out, err := c.command(check...).CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%q: %v\n%s\nlog:\n%s", check, err, out, c.said())
		}
	}
}

// dockerRun is what a docker run of the page says.
type dockerRun struct {
	env, volumes, args []string
}

func parseDockerRun(t *testing.T, words []string) (r dockerRun) {
	t.Helper()
	for i := 0; i < len(words); i++ {
		switch word := words[i]; word {
		case "-d", "--read-only":
		case "--name", "--cap-drop", "--security-opt", "-p":
			i++
		case "-e":
			i++
			r.env = append(r.env, words[i])
		case "-v":
			i++
			r.volumes = append(r.volumes, words[i])
		case "countersign":
			r.args = words[i+1:]
			return r
		default:
			t.Fatalf("the page says docker run %q, which this test does not know", word)
		}
	}
	return r
}

// TestContainerPage runs the containers of docs/operator/README.md, a service and a gateway, with a
// deposit that goes from one to the other.
func TestContainerPage(t *testing.T) {
	dbtest.Whole(t, "it builds the program and needs root")
	if os.Getuid() != 0 {
		t.Skip("skipped: only root changes its root directory and makes a network")
	}
	for _, name := range []string{"unshare", "nsenter", "chroot", "ip"} {
		tool(t, name)
	}
	network := exec.Command("unshare", "--net", "sh", "-ec", "ip link set lo up; echo up; exec sleep infinity")
	up, err := network.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := network.Start(); err != nil {
		t.Skipf("skipped: root may not make a network on this machine: %v", err)
	}
	t.Cleanup(func() {
		_ = network.Process.Kill()
		_ = network.Wait()
	})
	if _, err := up.Read(make([]byte, 2)); err != nil {
		t.Skipf("skipped: root may not make a network on this machine: %v", err)
	}

	// The image, as the Dockerfile says.
	file := regexp.MustCompile(`\\\n`).ReplaceAllString(read(t, "Dockerfile"), "")
	words := func(instruction string) (list []string) {
		m := regexp.MustCompile(`(?m)^` + instruction + `.*?(\[.*\])$`).FindStringSubmatch(file)
		if m == nil || json.Unmarshal([]byte(m[1]), &list) != nil {
			t.Fatalf("the Dockerfile has no list for %s", instruction)
		}
		return list
	}
	env := strings.Fields(regexp.MustCompile(`(?m)^ENV (.*)$`).FindStringSubmatch(file)[1])
	build := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*)$`).FindStringSubmatch(file)[1]
	binary := filepath.Join(t.TempDir(), "countersign")
	run(t, "..", "sh", "-c", strings.Replace(build, "/out/countersign", binary, 1))
	chown := func(paths ...string) {
		t.Helper()
		for _, path := range paths {
			if err := os.Chown(path, imageUser, imageUser); err != nil {
				t.Fatal(err)
			}
		}
	}
	var runs []dockerRun
	for _, block := range regexp.MustCompile("(?s)```sh not run: needs Docker[^\n]*\n(.*?)```").FindAllStringSubmatch(read(t, "../docs/operator/README.md"), -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
			if rest, is := strings.CutPrefix(line, "docker run "); is {
				runs = append(runs, parseDockerRun(t, strings.Fields(rest)))
			}
		}
	}
	if len(runs) != 2 || len(runs[0].args) != 0 || len(runs[1].args) == 0 {
		t.Fatalf("docs/operator/README.md has other containers: %+v", runs)
	}
	start := func(r dockerRun, own ...string) *container {
		t.Helper()
		top := t.TempDir() // of root, which others may not enter
		c := &container{t: t, root: filepath.Join(top, "root"), network: network.Process.Pid, log: filepath.Join(top, "log"), env: append(append(append([]string{}, env...), r.env...), own...)}
		for _, v := range append(r.volumes, ":/etc/ssl/certs") {
			if err := os.MkdirAll(filepath.Join(c.root, strings.Split(v, ":")[1]), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		run(t, "", "cp", binary, c.root)
		run(t, "", "chmod", "-R", "a+rX", c.root)
		data := filepath.Join(c.root, "data")
		chown(data)
		if err := os.Chmod(data, 0o700); err != nil {
			t.Fatal(err)
		}
		return c
	}
	begin := func(c *container, args []string) {
		t.Helper()
		cmd := c.command(args...)
		log, err := os.Create(c.log)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	health := words("HEALTHCHECK")[1:]

	// The merchant is on this machine here, which a service in production does not allow.
	service := start(runs[0], "COUNTERSIGN_ALLOW_PRIVATE=true", "COUNTERSIGN_ALLOW_HTTP=true")
	begin(service, words("CMD"))
	service.ready(health)
	service.exec("merchants", "add", "shop", "--out", "/data/shop",
		"notifyUrl=http://127.0.0.1:8090/callbacks/notify", "withdrawUrl=http://127.0.0.1:8090/callbacks/withdraw")

	g := start(runs[1])
	for _, name := range []string{"service.b64", "api.key", "callback-api.key"} {
		text, err := os.ReadFile(filepath.Join(service.root, "data/shop", name))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(g.root, "shop", name)
		if err := os.WriteFile(to, text, 0o400); err != nil {
			t.Fatal(err)
		}
		chown(to)
	}
	begin(g, runs[1].args)
	g.ready(health)
	service.exec("api", "addDeposits", "-d", `{"merchant": "shop", "trackingId": "d-1", "tenantUserId": "65515", "chainName": "ETH", "symbol": "WETH", "amount": "7.4",
		"txId": "0xec7c", "txIndex": 5, "fromAddress": "0xef1c", "toAddress": "0x7054", "riskLevelFrom": 44, "riskLevelTo": 40}`)
	for end := time.Now().Add(patience); !strings.Contains(g.exec("deposits", "list"), `"d-1"`); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no deposit arrives:\n%s\n%s", service.said(), g.said())
		}
	}
	if !strings.Contains(g.said(), "msg=serving") {
		t.Errorf("docker logs has no line of the start:\n%s", g.said())
	}
	// Commands that write temporary files have a place for them.
	service.exec("backup", "--to", "/data/backup.db")
	for _, c := range []*container{service, g} {
		_ = filepath.WalkDir(c.root, func(path string, d os.DirEntry, err error) error {
			if err != nil || strings.HasPrefix(path, filepath.Join(c.root, "data")) || strings.HasPrefix(path, filepath.Join(c.root, "shop")) {
				return err
			}
			if info, err := d.Info(); err == nil && info.Mode().Perm()&0o022 != 0 {
				t.Errorf("the program may write to %s", path)
			}
			return nil
		})
	}
}
