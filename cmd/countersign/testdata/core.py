"""A wallet core that talks to the service by inserts and selects in its own PostgreSQL alone.

core.py URL ROWS books ROWS things and ends when each withdrawal is executed. Each step is one
transaction, so it can be killed anywhere and started again.
"""

import json
import sys
import time
from decimal import Decimal

import psycopg2

url, rows = sys.argv[1], int(sys.argv[2])
core = psycopg2.connect(url)
with core, core.cursor() as cursor:  # one core at a time: what a killed one sent may still be under way
    cursor.execute("SELECT pg_advisory_lock(1)")


def tell(cursor, kind, body):
    cursor.execute("INSERT INTO countersign_outbox (kind, body) VALUES (%s, %s)", [kind, json.dumps(body)])


def details(n):
    return {"address": "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", "chainName": "TRON", "symbol": "USDT", "amount": "%d.50" % n}


def book(cursor):
    """Books the next thing; gives False where all are booked."""
    cursor.execute("SELECT count(*) FROM booked")
    n = cursor.fetchone()[0] + 1
    if n > rows:
        return False
    kind, amount = "deposit", Decimal(n) + Decimal(n * 7919 + 1).scaleb(-18)
    if n % 20 == 0:
        kind = "taken back"
        tell(cursor, "withdrawal", {"merchant": "far", "callBackId": "%d" % n, "tenantUserId": "u", "details": details(n)})
        tell(cursor, "cancel", {"merchant": "far", "callBackId": "%d" % n})
    elif n % 5 == 0:
        kind = "withdrawal"
        tell(cursor, "withdrawal", {"merchant": "shop", "callBackId": "%d" % n, "tenantUserId": "u", "details": details(n)})
    elif n % 7 == 0:
        kind = "address"
        tell(cursor, "address", {"merchant": "shop", "changeId": "%d" % n, "tenantUserId": "user-%d" % n, "newAddress": "TNew%d" % n,
                                 "toAddress": "TOld%d" % n, "chainName": "TRON", "symbol": "USDT"})
    else:
        tell(cursor, "deposit", {
            "merchant": "shop", "trackingId": "%d" % n, "tenantUserId": "u", "chainName": "ETH", "symbol": "WETH", "amount": str(amount),
            "txId": "0x%064x" % n, "txIndex": 0, "fromAddress": "0xfrom", "toAddress": "0xto", "riskLevelFrom": 0, "riskLevelTo": 0})
    cursor.execute("INSERT INTO booked (id, kind, amount) VALUES (%s, %s, %s)", [n, kind, amount])
    return True


def claim(cursor):
    """Asks for the permit of each withdrawal that was confirmed."""
    cursor.execute("""SELECT call_back_id FROM countersign_decisions d WHERE decision = 'confirmed'
        AND NOT EXISTS (SELECT 1 FROM claimed c WHERE c.id = d.call_back_id)""")
    for (i,) in cursor.fetchall():
        cursor.execute("INSERT INTO claimed (id) VALUES (%s)", [i])
        tell(cursor, "release", {"merchant": "shop", "callBackId": i, "claim": "execution-" + i})


def execute(cursor):
    """Executes what there is a permit for, as it says, and tells what became of it."""
    cursor.execute("""SELECT call_back_id, permit, body->'details'->>'amount' FROM countersign_permits p
        WHERE NOT EXISTS (SELECT 1 FROM executed e WHERE e.id = p.call_back_id)""")
    for i, permit, amount in cursor.fetchall():
        tx = None if int(i) % 3 == 0 else "0xdone" + i
        cursor.execute("INSERT INTO executed (id, amount, tx_id) VALUES (%s, %s, %s)", [i, amount, tx])
        of = {"merchant": "shop", "callBackId": i}
        tell(cursor, "waiting", dict(of, **{"for": "fees"}))
        end = {"executed": {"txId": tx}} if tx else {"failed": {"reason": "no funds"}}
        tell(cursor, "outcome", dict(of, permit=permit, **end))


def left(cursor):
    cursor.execute("SELECT (SELECT count(*) FROM booked WHERE kind = 'withdrawal') - (SELECT count(*) FROM executed)")
    return cursor.fetchone()[0]


more = True
while more or waiting > 0:
    for step in (book, claim, execute, left):
        with core, core.cursor() as cursor:
            result = step(cursor)
        if step is book:
            more = result
    waiting = result
    time.sleep(0.005 if more else 0.05)
