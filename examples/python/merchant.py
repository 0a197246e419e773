"""A merchant's end of the custody callbacks for Python 3.9 or newer, standard
library only. Copy it and put your own ledger where it says CREDIT.

The rule numbers (S5, M2, B3 ...) are those of PROTOCOL.md. Settings come from the
environment; see README.md beside this folder.

Accepted callbacks are recorded in STATE_FILE, one JSON text a line, and are on disk
before the answer is sent. Without STATE_FILE they are kept in memory only, and a
deposit that is sent again after a restart is credited again: use that only for
trying out.
"""

import base64
import hashlib
import hmac
import io
import json
import os
import re
import secrets
import socket
import sys
import threading
import time
import traceback
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 65_536  # bytes, H2
NOTIFY, WITHDRAW = "/callbacks/notify", "/callbacks/withdraw"
EXACT = 2**53 - 1  # M4


class Refusal(Exception):
    """A refusal: an errCode of PROTOCOL.md, Error codes, and the HTTP status."""

    def __init__(self, code, message, status=200):
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


def cannot_open(why):
    return Refusal(1001, "the request cannot be opened: " + why, 400)


def malformed(why):
    return Refusal(1002, "the request is malformed: " + why, 400)


# ---- The key: modulus and exponent out of a SubjectPublicKeyInfo (K2)


def read_key(file):
    with open(file, encoding="ascii") as f:
        text = f.read()
    der = base64.b64decode("".join(line for line in text.splitlines() if not line.startswith("-----")))

    def element(data, at, tag):  # one DER element: where its content begins and ends
        if data[at] != tag:
            raise ValueError(f"{file} holds no RSA public key")
        size, at = data[at + 1], at + 2
        if size >= 0x80:
            n = size & 0x7F
            size, at = int.from_bytes(data[at : at + n], "big"), at + n
        return at, at + size

    at, _ = element(der, 0, 0x30)  # SubjectPublicKeyInfo
    begin, end = element(der, at, 0x30)  # algorithm
    if bytes.fromhex("2a864886f70d010101") not in der[begin:end]:  # rsaEncryption
        raise ValueError(f"{file} holds no RSA public key")
    at, _ = element(der, end, 0x03)  # BIT STRING, its first byte counts unused bits
    at, _ = element(der, at + 1, 0x30)  # RSAPublicKey
    begin, end = element(der, at, 0x02)
    modulus = int.from_bytes(der[begin:end], "big")
    begin, end = element(der, end, 0x02)
    return modulus, int.from_bytes(der[begin:end], "big")


N, E = read_key(os.environ["KEY_FILE"])  # what the service gave you: a secret (K5)
K = (N.bit_length() + 7) // 8  # block size from the modulus, never a constant (K6)
API_KEY = os.environ["API_KEY"]  # goes into every response (R1)
CALLBACK_API_KEY = os.environ.get("CALLBACK_API_KEY")  # must come in X-API-KEY (H2); not set: the service sends none
OTHER = os.environ.get("PROVIDER", "countersign") == "other"  # a service that may not bind and has other forms (P1)
HOLD = float(os.environ.get("HOLD_MS", "25000" if OTHER else "0")) / 1000  # how long a question about an unknown order stays open (P1)
GRACE = float(os.environ.get("GRACE_MS", "30000")) / 1000  # how long such an order is not known yet, before it is refused
BODY_TIMEOUT = float(os.environ.get("BODY_TIMEOUT_MS", "10000")) / 1000
ORDERS_FILE = os.environ["ORDERS_FILE"]

# ---- Body forms (F1-F3) and Base64 (S4, S5)

WHITE = " \t\r\n"


def sealed_bytes(body):
    text = body.decode("latin-1").strip(WHITE)
    if text[:1] in ('"', "{"):
        try:
            text = parse_json(text)
        except Refusal:
            raise cannot_open("no known body form") from None
        if isinstance(text, dict):
            text = text.get("data")
        if not isinstance(text, str):
            raise cannot_open("no text in data")
    elif text.startswith("data=") or "&" in text:
        # A + that was not written as %2B becomes a space here, which is refused below (F3).
        fields = [f[5:] for f in text.split("&") if f.startswith("data=")]
        if len(fields) != 1:
            raise cannot_open("a form has data once")
        text = urllib.parse.unquote_plus(fields[0])
    text = text.strip(WHITE).replace("\r", "").replace("\n", "")
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise cannot_open("not standard Base64") from None
    if not raw or base64.b64encode(raw).decode() != text:  # unused bits, for one
        raise cannot_open("not standard Base64")
    return raw


# ---- Opening and sealing (S1-S5)


def open_block(block):
    c = int.from_bytes(block, "big")
    if c >= N:
        raise cannot_open("a block is out of range")
    b = pow(c, E, N).to_bytes(K, "big")
    i = 2
    while i < K and b[i] == 0xFF:
        i += 1
    if b[0] != 0 or b[1] != 1 or i < 10 or b[i : i + 1] != b"\0" or i + 1 >= K:
        raise cannot_open("a block is not of type 1")
    return b[i + 1 :]


def seal(answer):
    """Block type 2, each chunk at most k - 11 bytes, the padding random and never 0."""
    plain, sealed = grouped(answer) if "address" in answer else write(answer), b""
    for at in range(0, len(plain), K - 11):
        chunk = plain[at : at + K - 11]
        padding = bytes(1 + secrets.randbelow(255) for _ in range(K - 3 - len(chunk)))
        block = b"\0\2" + padding + b"\0" + chunk
        sealed += pow(int.from_bytes(block, "big"), E, N).to_bytes(K, "big")
    return base64.b64encode(sealed).decode()


def write(answer):
    return ("{" + ",".join(f'"{name}":{json_text(v)}' for name, v in answer.items()) + "}").encode()


def json_text(value):
    return value if isinstance(value, Num) else json.dumps(value, ensure_ascii=False)


def grouped(answer):
    """A service that was not given the details of a withdrawal confirms them only where each lies in one
    block with callBackId or requestUUID. So they come in two groups, and the second begins a block where
    it does not fit into the first (D7, R7)."""

    def group(*names):
        return write(pick(answer, *names))[1:-1]

    first, second = b"{" + group("callBackId", "address") + b",", group("chainName", "symbol", "amount", "requestUUID")
    room = (K - 11) - len(first) % (K - 11)
    return first + b" " * (room if len(second) > room else 0) + second + b"," + group("type", "tenantUserId") + b"}"


# ---- Strict JSON (M1, M2). Numbers stay text: as a float, 2.0 would equal 2.


class Num(str):
    """A JSON number as it was written."""


def no_twins(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise malformed("a member is there twice")
    return members


def no_constant(name):
    raise malformed(name)


DECODER = json.JSONDecoder(object_pairs_hook=no_twins, parse_int=Num, parse_float=Num, parse_constant=no_constant)


def parse_json(text):
    depth = 0  # counted first, because the decoder goes as deep as it is led
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text, re.DOTALL):
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        if depth > 16:
            raise malformed("nested too deeply")
    try:
        value = DECODER.decode(text)
    except ValueError as e:
        raise malformed(str(e)) from None
    for t in texts(value):
        if "\0" in t or any("\ud800" <= c <= "\udfff" for c in t):
            raise malformed("U+0000 or half a character")
    return value


def texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for v in value:
            yield from texts(v)


# ---- Messages (M3-M5, A1): t text, e text that may be empty, n whole number,
# a amount; ? may be absent or null, L may be if PROVIDER is other.

WITHDRAWAL = {"trackingId": "t", "tenantUserId": "t", "callBackId": "t", "business": "nL", "requestUUID": "t"}
MEMBERS = {
    1: {"trackingId": "t", "tenantUserId": "t", "txId": "t", "chainName": "t", "symbol": "t", "amount": "a", "fromAddress": "eL",
        "toAddress": "t", "riskLevelFrom": "nL", "riskLevelTo": "nL", "txIndex": "nL", "newAddress": "eL", "business": "nL", "requestUUID": "t"},
    2: {**WITHDRAWAL, "trackingId": "tL", "tenantUserId": "tL"},
    3: {**WITHDRAWAL, "txId": "t", "chainName": "tL", "symbol": "tL", "amount": "aL", "fromAddress": "e?", "toAddress": "tL", "newAddress": "e?"},
    4: {"trackingId": "e?", "tenantUserId": "t", "chainName": "tL", "symbol": "tL", "toAddress": "e?", "newAddress": "t", "business": "nL",
        "requestUUID": "t"},
    5: {**WITHDRAWAL, "toAddress": "e?"},
    6: WITHDRAWAL,
    7: WITHDRAWAL,
}
RANGES = {"riskLevelFrom": (0, 100), "riskLevelTo": (0, 100), "txIndex": (-1, EXACT)}
AMOUNT = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


def parse_callback(plain):
    try:
        text = plain.decode("utf-8")
    except UnicodeDecodeError:
        raise malformed("not UTF-8") from None
    o = parse_json(text)
    if not isinstance(o, dict):
        raise malformed("not an object")
    as_sent = usual_forms(o) if OTHER else {}
    kind = whole(o, "type")
    if kind not in MEMBERS:
        raise Refusal(1003, "the callback type is unknown")
    known, m = MEMBERS[kind], {"type": kind}
    for name, rule in known.items():
        v = o.get(name)
        if v is None and "?" in rule or v in (None, "") and "L" in rule and OTHER:
            continue
        if rule.startswith("n"):
            m[name] = whole(o, name)
            continue
        if not isinstance(v, str) or isinstance(v, Num) or (v == "" and not rule.startswith("e")):
            raise malformed(f"{name} is missing or no text")
        if rule.startswith("a") and (not AMOUNT.fullmatch(v) or len(v.replace(".", "")) > 78):
            raise malformed("amount")
        m[name] = v
    folded = {name.casefold() for name in ["type", *known]}
    for name in o:  # M2: another case of a known name would be read by lax parsers
        if name != "type" and name not in known and name.casefold() in folded:
            raise malformed(f"{name} is in another case")
    if kind == 1:
        m.setdefault("txIndex", -1)
    as_sent = pick(as_sent, "type", *known)
    return {**m, "asSent": as_sent} if as_sent else m


IDS, NO_EFFECT = ("trackingId", "tenantUserId", "callBackId"), ("riskLevelFrom", "riskLevelTo", "business")


def usual_forms(o):
    """M12: other forms of members become the interface's own where they say the same. The result has them as they were sent."""
    as_sent = {}
    for name, v in o.items():
        usual = v
        if name in IDS and isinstance(v, Num) and v.isdigit():
            usual = str(v)
        elif name == "amount" and isinstance(v, str):
            usual = plain_amount(str(v))
        elif name in ("type", "txIndex", *NO_EFFECT):
            usual = Num(v) if isinstance(v, str) else v
            if name in NO_EFFECT and not is_whole(name, usual):
                usual = None
        if type(usual) is not type(v) or usual != v:
            o[name], as_sent[name] = usual, json_text(v)
    return as_sent


def plain_amount(text):
    """A4: an exponent moves the point. Nothing is computed, so nothing is lost."""
    found = re.fullmatch(r"(0|[1-9][0-9]{0,77})(?:\.([0-9]{1,78}))?[eE]([+-]?0*[0-9]{1,3})", text)
    if not found:
        return text
    digits, point = found[1] + (found[2] or ""), len(found[1]) + int(found[3])
    digits, point = "0" * (1 - point) + digits, max(point, 1)
    whole, fraction = digits[:point].ljust(point, "0").lstrip("0") or "0", digits[point:]
    if len(whole + fraction) > 78:
        fraction = fraction.rstrip("0")
    return whole + ("." + fraction if fraction else "")


def whole(o, name):
    if not is_whole(name, o.get(name)):
        raise malformed(f"{name} is not a whole number in its range")
    return int(o[name])


def is_whole(name, v):
    """M4: no fraction, no exponent, exact."""
    low, high = RANGES.get(name, (-EXACT, EXACT))
    return isinstance(v, Num) and bool(re.fullmatch(r"0|-?[1-9][0-9]{0,15}", v)) and low <= int(v) <= high


# ---- Binding (B1-B5)

VERSION_8 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def check_binding(plain, uuid, blocks):
    if not OTHER or VERSION_8.fullmatch(uuid):
        # A message cannot hold the UUID a second time, because the UUID was made from it.
        if not VERSION_8.fullmatch(uuid) or plain.count(uuid.encode()) != 1:
            raise Refusal(1002, "the request is not bound")
        unbound, made = plain.replace(uuid.encode(), b"0" * 36), bytes.fromhex(uuid.replace("-", ""))
        h = bytearray(hashlib.sha256(b"countersign request binding 1\n" + made[:6] + unbound).digest())
        h[0] = 0x80 | h[0] & 0x0F
        h[2] = 0x80 | h[2] & 0x3F
        if h[:10] != made[6:]:
            raise Refusal(1002, "the request is not bound")
        return
    # B5: a block that holds the requestUUID comes in one request alone.
    body = hashlib.sha256(b"".join(blocks)).hexdigest()
    own = [hashlib.sha256(b).hexdigest() for b in blocks if holds(open_block(b), uuid.encode())]
    with LOCK:
        if any(seen.get(block, body) != body for block in own):
            raise Refusal(1002, "the request repeats blocks of another one")
        for block in own:
            if block not in seen:
                remember({"block": block, "body": body})


VERSION_4 = re.compile(rb"[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}", re.I)


def holds(text, uuid):
    """Whether a block holds all of a requestUUID, or half of a random one or more."""
    if uuid in text:
        return True
    halves = range(len(uuid) // 2, len(uuid)) if VERSION_4.fullmatch(uuid) else ()
    return any(text.endswith(uuid[:n]) or text.startswith(uuid[-n:]) for n in halves)


# ---- Accepted callbacks (I1-I3)

LOCK = threading.RLock()  # one callback at a time from here on
taken, transfers, confirmed, seen, ended = {}, {}, {}, {}, set()


def apply(r):
    if "block" in r:
        seen[r["block"]] = r["body"]
    if "confirmed" in r:
        confirmed[r["confirmed"]] = r
    if "taken" in r:
        taken[r["taken"]] = content_of(r["callback"])
        if r["callback"]["type"] in (3, 5):
            ended.add(r["callback"].get("callBackId"))
        if r["callback"]["type"] == 1:
            transfers.setdefault(transfer_of(r["callback"]), []).append((r["callback"]["txIndex"], plain(r["callback"]["amount"])))


def open_state(file):
    if not file:
        return None
    f = os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "a+b", buffering=0)
    os.chmod(file, 0o600)  # also where others could read it before
    f.seek(0)
    data = f.read()
    end = data.rfind(b"\n") + 1
    f.truncate(end)  # half a line was never answered for, so it comes again
    for line in data[:end].splitlines():
        apply(json.loads(line))
    return f


def remember(record):
    """Writes to the disk first, so that memory never holds more than the disk. LOCK is held."""
    if STATE:
        try:
            line = json.dumps(record).encode() + b"\n"
            if STATE.write(line) != len(line):
                raise OSError("written in part")
            os.fsync(STATE.fileno())
        except OSError as e:
            print("the state cannot be kept:", e, file=sys.stderr, flush=True)
            os._exit(1)  # whoever cannot keep may not answer; the service tries again
    apply(record)


def evm(address):  # D2
    return address.lower() if re.fullmatch(r"0x[0-9a-fA-F]{40}", address) else address


def content_of(m):
    """What the effect of a callback rests on. Amounts count by value (A2)."""
    to = "" if m["type"] == 5 else evm(m.get("toAddress", ""))
    replaced = evm(m["newAddress"]) if m["type"] == 4 else ""
    return [*(m.get(name) for name in ("tenantUserId", "callBackId", "txId", "chainName", "symbol")), plain(m.get("amount", "")), to, replaced]


def plain(amount):
    """The shortest form of an amount (A2)."""
    return amount.rstrip("0").rstrip(".") if "." in amount else amount


def transfer_of(m):
    """What moved to where, without regard to spelling (I3)."""

    def fold(text):
        return re.sub("[^!-~]", "", text).lower()

    return fold(m["chainName"]), fold(m["txId"]).removeprefix("0x"), fold(m["symbol"]), fold(m["toAddress"]).removeprefix("0x")


STATE = open_state(os.environ.get("STATE_FILE"))


def take(m):
    key = json.dumps([m["type"], m.get("trackingId") or m["requestUUID"], m.get("callBackId")])
    with LOCK:
        if key in taken:
            if taken[key] == content_of(m):
                return  # I1: told before; answered again, done once
            print("ALARM: known with other content:", key, file=sys.stderr, flush=True)
            raise Refusal(2002, "the identifier is known with other content")
        record = {"taken": key, "callback": m}
        if m["type"] == 1:
            # I2: a possible duplicate. It is recorded, but credited only after a person has decided.
            before, index, amount = transfers.get(transfer_of(m), []), m["txIndex"], plain(m["amount"])
            record["possibleDuplicate"] = any(a == amount or i == index or i < 0 or index < 0 for i, a in before)
        # CREDIT: this line is the effect. With a database, insert the trackingId into
        # a unique column and credit tenantUserId in the same transaction, unless the
        # deposit is a possible duplicate. Types 3 to 7 are notices: M8, M9.
        remember(record)


# ---- Answers (R2-R5)


def pick(m, *names):
    return {n: m[n] for n in names if n in m}


def answer_to(m):
    uuid = {"requestUUID": m["requestUUID"]}
    if m["type"] == 1:
        take(m)
        return {**pick(m, "type", "trackingId", "txId", "txIndex", "chainName", "symbol", "amount", "fromAddress", "toAddress", "tenantUserId"),
                "callBackId": None, "state": None, "tenantType": None, **uuid}
    if m["type"] == 2:
        return {**pick(m, "type", "tenantUserId", "callBackId"), **details_of(m), **uuid}
    take(m)
    a = pick(m, "type", "trackingId", "tenantUserId", "callBackId", "txId", "chainName", "symbol", "amount", "fromAddress", "toAddress")
    if m["type"] == 4:
        a["toAddress"] = m["newAddress"]  # M8
    return {**a, **uuid}


def details_of(m):
    """A withdrawal is confirmed from your own order book. The request gives only the two identifiers.
    A confirmation is repeated for every later request (D4), until the withdrawal has ended or you mark its order
    as cancelled (I1). Other services name no user, and then callBackId alone finds the order."""
    order = order_of(m["callBackId"])
    if order["tenantUserId"] != m.get("tenantUserId", order["tenantUserId"]):
        raise Refusal(2002, "the order is of another user")
    with LOCK:
        if order.get("cancelled") or m["callBackId"] in ended:
            print("ALARM: asked about an order that has ended:", json.dumps(m["callBackId"]), file=sys.stderr, flush=True)
            raise Refusal(2005, "the order has ended")
        if m["callBackId"] not in confirmed:
            details = pick(order, "tenantUserId", "address", "chainName", "symbol", "amount")
            remember({"confirmed": m["callBackId"], "trackingId": m.get("trackingId"), "details": details})
        kept = confirmed[m["callBackId"]]
        # I1: one order pays one withdrawal. Files of earlier versions lack the trackingId.
        if kept.get("trackingId", m.get("trackingId")) != m.get("trackingId"):
            raise Refusal(2002, "the order is of another withdrawal")
        return kept["details"]


ASKED = {}  # callBackId of unknown orders: when it was asked first
WAITING = threading.BoundedSemaphore(64)


def order_of(callback_id):
    """The question may come before the order. A service to which any errCode may be a refusal is kept waiting for
    it, at most 64 at once; then, until the order had time to come, a code makes the service ask again (P1)."""
    until = time.monotonic() + HOLD
    while True:
        with open(ORDERS_FILE, encoding="utf-8") as f:
            order = next((o for o in json.load(f) if o["callBackId"] == callback_id), None)
        with LOCK:
            if order is not None:
                ASKED.pop(callback_id, None)
                return order
            if callback_id not in ASKED and len(ASKED) >= 10_000:
                del ASKED[next(iter(ASKED))]
            first = ASKED.setdefault(callback_id, time.monotonic())
        if time.monotonic() < until and WAITING.acquire(blocking=False):
            time.sleep(0.5)
            WAITING.release()
            continue
        if time.monotonic() - first < GRACE:
            raise Refusal(3002, "the order is not known yet")
        raise Refusal(2001, "the order is unknown")


# ---- HTTP (H2)


class TooLarge(Exception):
    pass


class Input(socket.SocketIO):
    """Reads until a moment, however slowly the bytes come. A time-out of the socket would begin anew with each byte."""

    until = 0.0  # time.monotonic()

    def readinto(self, buffer):
        left = self.until - time.monotonic()
        if left <= 0:
            raise socket.timeout("time is over")
        self._sock.settimeout(left)
        return super().readinto(buffer)


class Merchant(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds that a connection may wait for its next request
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.input = Input(self.connection, "rb")
        self.rfile = io.BufferedReader(self.input)

    def handle_one_request(self):
        try:
            self.input.until = time.monotonic() + self.timeout
            self.rfile.peek(1)
            self.input.until = time.monotonic() + BODY_TIMEOUT  # for all headers together
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def read_body(self):
        """The whole body: at most MAX_BODY bytes, within BODY_TIMEOUT."""
        self.input.until = time.monotonic() + BODY_TIMEOUT

        def read(n):
            data = b""
            while len(data) < n:
                part = self.rfile.read1(n - len(data))
                if not part:
                    raise ConnectionError("the body ended early")
                data += part
            return data

        def line():
            text = b""
            while not text.endswith(b"\r\n"):
                text += read(1)
                if len(text) > 1000:
                    raise ValueError("chunk header")
            return text

        if "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            size = int(self.headers.get("Content-Length") or 0)
            if size > MAX_BODY:
                raise TooLarge
            if size < 0:
                raise ValueError("Content-Length")
            return read(size)
        body = b""
        while size := int(line().split(b";")[0], 16):
            if size < 0 or len(body) + size > MAX_BODY:
                raise TooLarge
            body += read(size)
            line()
        while line() != b"\r\n":  # trailers
            pass
        return body

    def answer(self, status, response=None):
        body = json.dumps({"apiKey": API_KEY, **response}).encode() if response else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def linger(self):
        """Reads on after the response to an unread body: closing at once would reset the connection before the peer reads it."""
        try:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1)
            for _ in range(8):
                if not self.connection.recv(65_536):
                    break
        except OSError:
            pass

    def serve(self):
        status = 200
        try:
            body = self.read_body()
        except TooLarge:
            status = 413
        except (TimeoutError, socket.timeout):
            status = 408
        except (ValueError, OSError):
            status = 400
        self.connection.settimeout(self.timeout)
        self.close_connection = self.close_connection or status != 200
        if self.path not in (NOTIFY, WITHDRAW):
            status = 404
        elif self.command != "POST":
            status = 405
        # In constant time, and before any RSA.
        elif CALLBACK_API_KEY and not hmac.compare_digest(self.headers.get("X-API-KEY", "").encode("utf-8", "replace"), CALLBACK_API_KEY.encode()):
            status = 401
        if status != 200:
            self.answer(status)
            if self.close_connection:
                self.linger()
            return
        try:
            response = {"data": self.handle_body(body), "errCode": 0, "message": ""}
        except Refusal as r:
            status, response = r.status, {"data": "", "errCode": r.code, "message": r.message}
        except Exception:  # the log gets the cause, the peer a fixed word
            traceback.print_exc()
            response = {"data": "", "errCode": 5000, "message": "internal error"}
        self.answer(status, response)

    def handle_body(self, body):
        raw = sealed_bytes(body)
        if len(raw) % K:
            raise cannot_open("not a whole number of blocks")
        blocks = [raw[i : i + K] for i in range(0, len(raw), K)]
        plain = b"".join(open_block(b) for b in blocks)
        m = parse_callback(plain)
        if (m["type"] == 2) != (self.path == WITHDRAW):
            raise Refusal(1004, "the callback type does not belong to this URL")
        check_binding(plain, m["requestUUID"], blocks)
        answer, as_sent = answer_to(m), m.get("asSent", {})
        # What came in another form goes back in that form (M12).
        return seal({name: Num(as_sent[name]) if name in as_sent else v for name, v in answer.items()})

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = serve

    def log_message(self, format, *args):
        pass  # a line a request would go to standard error


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # connections that wait to be taken; 5 by default


if __name__ == "__main__":
    host, _, port = os.environ.get("LISTEN", "127.0.0.1:8090").rpartition(":")
    server = Server((host, int(port)), Merchant)
    print(f"listening on http://{host}:{server.server_port}", flush=True)
    server.serve_forever()
