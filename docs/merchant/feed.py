# Books the feeds of a gateway; docs/merchant/README.md says how.
import json, os, sqlite3, sys, time, urllib.error, urllib.request

URL = os.environ.get("GATEWAY_URL", "http://127.0.0.1:8091")
TOKEN = open("app.token").read().strip()
books = sqlite3.connect("books.db")
books.execute("CREATE TABLE IF NOT EXISTS credits (seq INTEGER PRIMARY KEY, user, symbol, amount)")

def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"}
    request = urllib.request.Request(URL + path, data, headers, method=method)
    return json.load(urllib.request.urlopen(request, timeout=60))

def credit(deposit):  # an amount is a text: never make a float of it
    with books:
        books.execute("INSERT OR IGNORE INTO credits VALUES (?, ?, ?, ?)",
                      [deposit["seq"], deposit["tenantUserId"], deposit["symbol"], deposit["amount"]])

def read(feed, wait, book):
    entries = call("GET", f"/v1/{feed}?reader=books&limit=100{wait}")["items"]
    for entry in entries:
        book(entry)
    if entries:
        call("PUT", "/v1/cursors/books", {feed: entries[-1]["seq"]})

while True:
    try:
        read("deposits", "&wait=5s", lambda d: d["state"] == "taken" and credit(d))
        read("events", "", lambda e: e["kind"] == "deposit.credited" and credit(call("GET", f"/v1/deposits/{e['deposit']}")))
    except urllib.error.HTTPError as e:
        if e.code in (401, 403, 409, 410):
            sys.exit(f"a person must look: {e.code} {e.read().decode()}")
        time.sleep(1)
    except OSError:  # the gateway is away
        time.sleep(1)
