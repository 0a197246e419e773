// Books a deposit and its row for the relay in one transaction; docs/provider/relay.md says how.
const { Client } = require("pg");

const deposit = {
  merchant: "shop", trackingId: "node-1", tenantUserId: "65515",
  chainName: "ETH", symbol: "WETH", amount: "7.400", // a string, never a number
  txId: "0xec7cc4df1ff542793053335700f18d59c3f870e1e4820a42d558c76db832bd14", txIndex: 5,
  fromAddress: "0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b", toAddress: "0x7054b0f980a7eb5b3a6b3446f3c947d80162775c",
  riskLevelFrom: 44, riskLevelTo: 40,
};

(async () => {
  const core = new Client(process.env.CORE_URL);
  await core.connect();
  try {
    await core.query("BEGIN");
    await core.query("INSERT INTO booked (tracking_id, amount) VALUES ($1, 7.400)", [deposit.trackingId]);
    await core.query("INSERT INTO countersign_outbox (kind, body) VALUES ('deposit', $1)", [JSON.stringify(deposit)]);
    await core.query("COMMIT");
  } finally {
    await core.end(); // without COMMIT nothing stays
  }
})();
