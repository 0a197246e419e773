package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// patience bounds what does not end. A busy machine needs a part of it.
const patience = 4 * time.Minute

// engine is a function docker for the commands of the page. It runs the program as the image does, without an engine:
// as its user, with nothing but what the image and the volumes hold, of which it may write to /data alone, and in the
// network of the script, with which all processes end. What an engine adds is not tested: capabilities, seccomp, published ports, restarts.
const engine = `
user=65532
ip link set lo up
cd "$1"
docker() {
	local what=$1 name=service volume at
	shift
	case $what in
	build) return ;; # what it builds is there
	logs) cat "$1.log"; return ;;
	exec) env -i $image $(cat "$1.env") "$(type -P chroot)" --userspec=$user:$user --groups= "$@"; return ;;
	esac
	echo "$own" > new.env
	mkdir -m 0755 new
	mkdir -p new/data new/etc/ssl/certs
	while [ "$1" != countersign ]; do
		case $1 in
		-d | --read-only) ;;
		--cap-drop | --security-opt | -p) shift ;;
		--name) name=$2; shift ;;
		-e) echo "$2" >> new.env; shift ;;
		-v)
			volume=${2%%:*} at=new$(cut -d: -f2 <<<"$2")
			mkdir -p "$at"
			case $volume in ./*) cp -a "$volume/." "$at" ;; esac
			shift ;;
		*) echo "a docker run of the page has $1, which this test does not know"; exit 1 ;;
		esac
		shift
	done
	shift
	mv new "$name"
	mv new.env "$name.env"
	cp countersign "$name"
	chown $user:$user "$name/data"
	chmod 0700 "$name/data"
	[ $# -gt 0 ] || set -- $command
	docker exec "$name" /countersign "$@" > "$name.log" 2>&1 &
	await docker exec "$name" $health
}
await() {
	for i in $(seq 600); do ! "$@" > wait.log 2>&1 || return 0; sleep 0.1; done
	echo "in vain: $*"; cat wait.log ./*.log
	exit 1
}
`

// beforeShop and afterShop are what the test does before and after the gateway of the page starts. The merchant is on
// this machine, which a service in production does not allow.
const beforeShop = `
own=
docker exec service /countersign merchants add shop --out /data/shop \
	notifyUrl=http://127.0.0.1:8090/callbacks/notify withdrawUrl=http://127.0.0.1:8090/callbacks/withdraw
mkdir shop
cp service/data/shop/{service.b64,api.key,callback-api.key} shop
chown $user:$user shop/*
chmod 0400 shop/*
`

const afterShop = `
docker exec service /countersign api addDeposits -d '{"merchant": "shop", "trackingId": "d-1", "tenantUserId": "65515", "chainName": "ETH",
	"symbol": "WETH", "amount": "7.4", "txId": "0xec7c", "txIndex": 5, "fromAddress": "0xef1c", "toAddress": "0x7054", "riskLevelFrom": 44, "riskLevelTo": 40}'
booked() { docker exec gateway /countersign deposits list | grep '"d-1"'; }
await booked
docker logs gateway | grep msg=serving
# Commands that write temporary files have a place for them.
docker exec service /countersign backup --to /data/backup.db
if find service gateway -path '*/data' -prune -o -path '*/shop' -prune -o -perm /022 -print | grep .; then
	echo "the program may write there"
	exit 1
fi
`

// TestContainerPage runs the containers of docs/operator/README.md, a service and a gateway, with a
// deposit that goes from one to the other.
func TestContainerPage(t *testing.T) {
	dbtest.Whole(t, "it builds the program and needs root")
	if os.Getuid() != 0 {
		t.Skip("skipped: only root changes its root directory and makes a network")
	}
	for _, name := range []string{"unshare", "chroot", "ip", "bash"} {
		tool(t, name)
	}
	if out, err := exec.Command("unshare", "--net", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		t.Skipf("skipped: root may not make a network on this machine: %v %s", err, out)
	}
	file := strings.ReplaceAll(read(t, "Dockerfile"), "\\\n", "")
	line := func(instruction string) string {
		m := regexp.MustCompile(`(?m)^` + instruction + `$`).FindStringSubmatch(file)
		if m == nil {
			t.Fatalf("the Dockerfile has no %s", instruction)
		}
		return m[1]
	}
	words := func(instruction string) string {
		var list []string
		ok(t, json.Unmarshal([]byte(line(instruction)), &list))
		return strings.Join(list, " ")
	}
	dir := t.TempDir()
	run(t, "..", "sh", "-c", strings.Replace(line(`RUN (CGO_ENABLED=0 go build .*)`), "/out/countersign", filepath.Join(dir, "countersign"), 1))
	page := notRun(t, "Docker")
	if len(page) != 2 || strings.Count(page[0]+page[1], "docker run ") != 2 {
		t.Fatalf("docs/operator/README.md has other containers: %q", page)
	}
	script := strings.Join([]string{engine, page[0], beforeShop, page[1], afterShop}, "\n")
	cmd := exec.Command("unshare", "--net", "--pid", "--fork", "bash", "-euo", "pipefail", "-c", script, "bash", dir)
	cmd.Env = append(os.Environ(), "image="+line("ENV (.*)"), "command="+words("CMD (.*)"),
		"health="+words("HEALTHCHECK .* CMD (.*)"),
		"own=COUNTERSIGN_ALLOW_PRIVATE=true COUNTERSIGN_ALLOW_HTTP=true")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
