// Books the feeds of a gateway; docs/merchant/README.md says how.
const fs = require("fs");

const url = process.env.GATEWAY_URL ?? "http://127.0.0.1:8091";
const token = fs.readFileSync("app.token", "utf8").trim();
const file = fs.openSync("books.jsonl", "a+"); // your database, with seq as a unique key
const booked = new Set(fs.readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line).seq));

async function call(method, path, body) {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const answer = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  if ([401, 403, 409, 410].includes(answer.status)) {
    console.error("a person must look:", answer.status, await answer.text());
    process.exit(1);
  }
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.json();
}

function credit({ seq, tenantUserId, symbol, amount }) { // an amount is a text: never make a number of it
  if (booked.has(seq)) return;
  fs.writeSync(file, JSON.stringify({ seq, tenantUserId, symbol, amount }) + "\n");
  fs.fsyncSync(file);
  booked.add(seq);
}

async function read(feed, wait, book) {
  const entries = (await call("GET", `/v1/${feed}?reader=books&limit=100${wait}`)).items;
  for (const entry of entries) await book(entry);
  if (entries.length) await call("PUT", "/v1/cursors/books", { [feed]: entries.at(-1).seq });
}

(async () => {
  for (;;) {
    try {
      await read("deposits", "&wait=5s", (d) => d.state === "taken" && credit(d));
      await read("events", "", async (e) => e.kind === "deposit.credited" && credit(await call("GET", `/v1/deposits/${e.deposit}`)));
    } catch {
      await new Promise((done) => setTimeout(done, 1000)); // the gateway is away
    }
  }
})();
