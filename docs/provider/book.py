# Books a deposit and its row for the relay in one transaction; docs/provider/relay.md says how.
import json, os
import psycopg2

deposit = {
    "merchant": "shop", "trackingId": "python-1", "tenantUserId": "65515",
    "chainName": "ETH", "symbol": "WETH", "amount": "7.400",  # a string: str() of a Decimal, never a float
    "txId": "0xec7cc4df1ff542793053335700f18d59c3f870e1e4820a42d558c76db832bd14", "txIndex": 5,
    "fromAddress": "0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b", "toAddress": "0x7054b0f980a7eb5b3a6b3446f3c947d80162775c",
    "riskLevelFrom": 44, "riskLevelTo": 40,
}
core = psycopg2.connect(os.environ["CORE_URL"])
with core, core.cursor() as cursor:  # commits at the end, or rolls back
    cursor.execute("INSERT INTO booked (tracking_id, amount) VALUES (%s, 7.400)", [deposit["trackingId"]])
    cursor.execute("INSERT INTO countersign_outbox (kind, body) VALUES ('deposit', %s)", [json.dumps(deposit)])
