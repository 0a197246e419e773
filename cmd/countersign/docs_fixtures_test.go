package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"countersign/internal/lab/dbtest"
)

// fixture is what a session finds. setup fills the directory and gives what the shell does
// before the first block; its variables stay, and so does what it starts.
type fixture struct {
	several bool // several daemons of one end: commands find each by its data directory
	setup   func(t *testing.T, dir string) string
}

var fixtures = map[string]fixture{
	// A fresh checkout, in which the page builds the program.
	"checkout": {setup: checkout},
	// The same, with Node and jq for the example that check is run against.
	"node": {setup: func(t *testing.T, dir string) string {
		needs(t, "node")
		needs(t, "jq")
		return checkout(t, dir)
	}},
	// An empty directory and the installed program.
	"installed": {setup: func(*testing.T, string) string { return "" }},
	// Both ends at work, with what people have to decide on; see bothRunning.
	"running": {setup: func(*testing.T, string) string { return bothRunning }},
	// The same with the approver ann, and two changes of merchants that wait.
	"approvers": {setup: func(*testing.T, string) string { return bothRunning + twoPersons }},
	// The same, and both daemons are stopped.
	"stopped": {setup: func(*testing.T, string) string { return bothRunning + twoPersons + stopBoth }},
	// Both were backed up and are stopped, and the core and the application have written
	// what they know.
	"lost": {setup: func(*testing.T, string) string { return bothRunning + lostBoth + stopBoth }},
	// What two providers handed over to a shop, and their private keys to play them.
	"providers": {several: true, setup: func(*testing.T, string) string {
		return `
umask 077
for name in acme globex; do
  countersign keys new --bits 1024 --out $name > setup.log
  openssl rand -hex 16 > $name/api.key
  openssl rand -hex 16 > $name/callback.key
done
`
	}},
	// The same after the restore and its reconcile, and nobody has said what became of
	// order-2.
	"restored": {setup: func(*testing.T, string) string { return bothRunning + lostBoth + stopBoth + restoreBoth }},
	// PostgreSQL with the databases of a wallet core and of a service that is to begin,
	// and a service with merchant shop.
	"postgres": {setup: withPostgresOfPages},
}

// checkout copies what a fresh checkout has. What git ignores stays behind: the session of README.md may have been typed
// here before. So does what is deleted and not committed yet. Without git all files are copied.
func checkout(t *testing.T, dir string) string {
	script := `cd ../..
{ git -c safe.directory=* ls-files --cached --others --exclude-standard 2> /dev/null || find . -type f; } |
	while read -r file; do [ ! -e "$file" ] || printf '%s\n' "$file"; done | tar -cf - -T - | tar -xf - --no-same-owner -C "$1"`
	if out, err := exec.Command("sh", "-ec", script, "sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return ""
}

// awaiting defines await, which waits for a command that ends with status 0, for at most a minute of looks.
const awaiting = `
await() { n=0; while ! eval "$1" > wait.log 2>&1; do n=$((n+1)); [ $n -lt 600 ] || { echo "in vain: $1"; cat wait.log; exit 1; }; sleep 0.1; done; }
`

// bothRunning starts a service and a gateway with their data in the present directory.
//
//   - Merchant shop, whose end is the gateway: deposit d-1 was taken, d-2 is held as its
//     possible duplicate; order-1 is confirmed, order-2 waits for a person; another address
//     of user 65515 is held; a callback that is not bound was refused.
//   - Merchant kiosk, which nothing answers for: its deposit d-1, callback
//     kiosk.01m4hnq2v8c3w6r9d5k7t0xj1e of a page, waits for another attempt.
//   - Merchant corner, which has no work. The token tok_5kF6DZ7p3dm4 of a page, which is of role
//     viewer.
//   - Nothing answers at the gateway's --forward-url, nor at the service's --alarm-url.
//   - The directories named /backup and /etc/countersign of a page are here.
const bothRunning = `
echo "s#/backup/#$PWD/backup/#g
s#/etc/countersign/#$PWD/etc/#g
s#https://service:8080#http://127.0.0.1:8080#g
s#https://gateway:8091#http://127.0.0.1:8091#g" > $names
mkdir backup etc
countersign keys new --out pair > keys.log
start_service() {
  countersign serve --listen 127.0.0.1:8080 --allow-private --allow-http --alarm-url http://127.0.0.1:8096/alarms >> serve.log 2>&1 &
  serve=$!
  await 'countersign health --ready --api http://127.0.0.1:8080'
}
start_service
countersign merchants add shop key.privateKey=@pair/private.pem --out shop \
  notifyUrl=http://127.0.0.1:8090/callbacks/notify withdrawUrl=http://127.0.0.1:8090/callbacks/withdraw > setup.log
countersign merchants add kiosk --out kiosk \
  notifyUrl=http://127.0.0.1:8099/callbacks/notify withdrawUrl=http://127.0.0.1:8099/callbacks/withdraw > setup.log
countersign merchants add corner key.bits=1024 --out corner \
  notifyUrl=http://127.0.0.1:8098/callbacks/notify withdrawUrl=http://127.0.0.1:8098/callbacks/withdraw > setup.log
` + policyFiles + `start_gateway() {
  countersign gateway --listen 127.0.0.1:8090 --api-listen 127.0.0.1:8091 --service-key shop/service.b64 --api-key @shop/api.key --callback-api-key @shop/callback-api.key \
    --policy policy.toml --forward-url http://127.0.0.1:8097/in --forward-secret whsec_c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMsIG9rIQ== >> gateway.log 2>&1 &
  gateway=$!
  await 'countersign health --ready --api http://127.0.0.1:8091'
}
start_gateway

deposit() {
  curl -sS --fail-with-body -H "Authorization: Bearer $(cat countersign-data/admin.token)" -H "Content-Type: application/json" http://127.0.0.1:8080/v1/deposits -d @- <<END > setup.log
[{"merchant": "$1", "trackingId": "$2", "tenantUserId": "65515", "chainName": "ETH", "symbol": "WETH", "amount": "7.4",
 "txId": "0xec7cc4df1ff542793053335700f18d59c3f870e1e4820a42d558c76db832bd14", "txIndex": 5,
 "fromAddress": "0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b", "toAddress": "0x7054b0f980a7eb5b3a6b3446f3c947d80162775c",
 "riskLevelFrom": 44, "riskLevelTo": 40}]
END
}
order() {
  countersign orders add - <<END > setup.log
{"callBackId": "$1", "tenantUserId": "65515", "address": "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", "chainName": "TRON", "symbol": "USDT", "amount": "$2"}
END
  countersign withdrawals add - <<END > setup.log
{"merchant": "shop", "callBackId": "$1", "tenantUserId": "65515", "details": {"address": "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", "chainName": "TRON", "symbol": "USDT", "amount": "$2"}}
END
}
deposit shop d-1
await 'countersign deposits list | grep d-1'
deposit shop d-2
deposit kiosk d-1
order order-1 120.5
order order-2 25000
countersign api addAddress merchant=shop changeId=change-1 tenantUserId=65515 newAddress=0x1054b0f980a7eb5b3a6b3446f3c947d80162775c \
  toAddress=0x7054b0f980a7eb5b3a6b3446f3c947d80162775c chainName=ETH symbol=WETH > setup.log
await 'countersign api addresses | grep held'
echo '{"type":1,"trackingId":"d-3","tenantUserId":"65515","chainName":"ETH","symbol":"WETH","amount":"2",
  "txId":"0x3c7cc4df1ff542793053335700f18d59c3f870e1e4820a42d558c76db832bd14","txIndex":1,
  "fromAddress":"0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b","toAddress":"0x7054b0f980a7eb5b3a6b3446f3c947d80162775c",
  "riskLevelFrom":44,"riskLevelTo":40,"requestUUID":"0b9f5d0e-41a7-4c3c-9a57-5b1c2a7d9e10"}' | countersign seal --key pair/private.pem > refused.b64
curl -sS -H "X-API-KEY: $(cat shop/callback-api.key)" --data-binary @refused.b64 http://127.0.0.1:8090/callbacks/notify > setup.log
await 'countersign api refused | grep d-3'
await 'countersign api searchDeposits state=held | grep d-2'
await 'countersign callbacks list merchant=kiosk | grep connect'
await 'countersign withdrawals show shop/order-1 | grep confirmed'
await 'countersign api order order-2 | grep held'
await 'countersign api forwarding | grep deposit_1'
kiosk=$(countersign callbacks list merchant=kiosk | sed 's/{"id":"\([^"]*\).*/\1/')
countersign token new reader --service role=viewer --out viewer.token > setup.log
echo "s#tok_5kF6DZ7p3dm4#$(sed -n 's/.*"id": "\(tok_[^"]*\)".*/\1/p' setup.log)#g" >> $names
countersign token new reader --gateway role=viewer --out gateway-viewer.token > setup.log
echo "s#kiosk.01m4hnq2v8c3w6r9d5k7t0xj1e#$kiosk#g" >> $names
`

const policyFiles = `
umask 077
cat > policy.toml <<'END'
default = "allow"

[[rule]]
name = "large"
amount-above = "1000"
effect = "ask"
END
cat > order.json <<'END'
{"callBackId": "order-3", "tenantUserId": "65515", "address": "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", "chainName": "TRON", "symbol": "USDT", "amount": "25000"}
END
`

const twoPersons = `
countersign token new ann --service role=approver --out ann.token > setup.log
change() { countersign merchants edit shop withdrawUrl=http://127.0.0.1:8090/callbacks/$1 | sed -n 's/.*"task": "change.\(chg_[^"]*\)".*/\1/p'; }
echo "s#chg_1977420dc00LAsZIlJs#$(change a)#g
s#chg_19774213c00V0pX7m2a#$(change b)#g" >> $names
`

const stopBoth = `
kill $serve $gateway
wait $serve $gateway
`

const lostBoth = `
countersign backup --data countersign-data --to backup/service-2026-11-22.db > setup.log
countersign backup --gateway --data countersign-gateway-data --to backup/gateway-2026-11-22.db > setup.log
for id in order-1 order-2; do echo '{"merchant":"shop","callBackId":"'$id'","state":"open"}'; done > executed.ndjson
(cat executed.ndjson; echo '{"merchant":"shop","trackingId":"d-1","symbol":"WETH","amount":"7.4","txIndex":5,"chainName":"ETH",
"txId":"0xec7cc4df1ff542793053335700f18d59c3f870e1e4820a42d558c76db832bd14","address":"0x7054b0f980a7eb5b3a6b3446f3c947d80162775c"}' | tr -d '\n'; echo) > booked.ndjson
: > added.ndjson
`

const restoreBoth = `
countersign restore --data countersign-data --from backup/service-2026-11-22.db --replace > setup.log 2>&1
countersign restore --gateway --data countersign-gateway-data --from backup/gateway-2026-11-22.db --replace > setup.log 2>&1
for file in executed booked; do grep -v order-2 $file.ndjson > said.ndjson; mv said.ndjson $file.ndjson; done
countersign reconcile --data countersign-data --executed executed.ndjson --booked booked.ndjson --added added.ndjson --settle > setup.log 2>&1 || [ $? = 1 ]
countersign reconcile --gateway --data countersign-gateway-data --booked booked.ndjson --settle > setup.log 2>&1 || [ $? = 1 ]
start_service
start_gateway
`

// withPostgresOfPages returns a server at a port of the loopback, as the programs of a page
// reach one.
func withPostgresOfPages(t *testing.T, _ string) string {
	needs(t, "psql")
	var names strings.Builder
	for page, database := range map[string]string{"db/core": dbtest.Postgres(t), "HOST/service": dbtest.Postgres(t)} {
		c := must(pgconn.ParseConfig(database))
		network, target := pgconn.NetworkAddress(c.Host, c.Port)
		// localhost, since 127.0.0.1 with a port stands for another one.
		addr := strings.Replace(newProxy(t, network, target).addr, "127.0.0.1", "localhost", 1)
		for _, role := range []string{"owner", "relay", "countersign"} {
			user := "postgres"
			if role == "countersign" {
				user = "countersign_" + c.Database // roles are of the whole server
				dbtest.Exec(t, database, "CREATE ROLE "+user+" LOGIN")
			}
			fmt.Fprintf(&names, "s#postgres://%s@%s#postgres://%s@%s/%s?sslmode=disable#g\n", role, page, user, addr, c.Database)
		}
		if page == "HOST/service" {
			fmt.Fprintf(&names, "s# countersign;# countersign_%s;#\n", c.Database)
		}
	}
	return "cat > $names <<END\n" + names.String() + "END\n" + `
echo "s#https://service.example:8080#http://127.0.0.1:8080#g" >> $names
countersign serve --listen 127.0.0.1:8080 --allow-private --allow-http > serve.log 2>&1 &
serve=$!
await 'countersign health --ready --api http://127.0.0.1:8080'
`
}

// expected holds the output of a session, by page and fixture, to more than what the page shows.
var expected = map[string]func(t *testing.T, out string){
	"docs/provider/README.md checkout": func(t *testing.T, out string) {
		// The message comes back, through our opener, through OpenSSL and in the
		// explanation, with another requestUUID and nothing else changed.
		head, _, _ := strings.Cut(page(t, "testdata/deposit.json"), `"requestUUID"`)
		if got := strings.Count(out, head); got != 3 {
			t.Errorf("the sample deposit was printed %d times, want 3:\n%s", got, out)
		}
		holds(t, out,
			`"trackingId":"d-1","state":"pending"`, // the service took the deposit
			`"decision":"confirmed"`,
			`"claim": "order-1-execution"`, // the withdrawal was countersigned
			`"state": "executed"`,
			`deposit/plain`, // the list of cases
			`binding    holds`,
		)
		// What the README says of the number of cases.
		claimed := regexp.MustCompile(`with (\d+) cases`).FindStringSubmatch(page(t, "README.md"))
		if claimed == nil {
			t.Fatal("the README does not say how many cases there are")
		}
		if got := len(regexp.MustCompile(`(?m)^\d{3,4} `).FindAllString(out, -1)); claimed[1] != strconv.Itoa(got) {
			t.Errorf("the README says %s cases, check --list lists %d", claimed[1], got)
		}
	},
	"docs/merchant/README.md checkout": func(t *testing.T, out string) {
		holds(t, out,
			`provider = "other"`,
			`"amount":"0.0000001"`,    // the deposit is booked, exactly
			`"asSent":{"amount":1E-7`, // and kept as it came
			`"state": "confirmed"`,    // so is the withdrawal
			`1013  must    pass  other/not-guessed`,
		)
	},
	// The permit with its answer, the record and the log of now are good.
	"docs/provider/permits.md installed": func(t *testing.T, out string) {
		holds(t, out, "good: this execution is allowed, and the merchant has signed that it confirms it", "withdrawal.released", "it begins with the ")
		if n := strings.Count(out, "good: countersign-"); n != 2 {
			t.Errorf("%d checks of the log are good, want 2:\n%s", n, out)
		}
	},
}

// holds fails for each of the texts that out lacks.
func holds(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}
