import base64, hashlib, json, re, sys
from decimal import Decimal
from urllib.parse import unquote
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

DETAILS = ["address", "chainName", "symbol", "amount"]
LINES = ["merchant", "callBackId", "withdrawal", *DETAILS, "claim", "epoch", "time", "duplicate"]
COVERED = '("@status" "content-digest" "content-type" "signature";req;key="countersign")'

class Refused(Exception):
    pass

def need(holds, why):
    if not holds:
        raise Refused(why)

def signed(key, signature, text):
    try:
        raw = base64.b64decode(signature, validate=True)
        Ed25519PublicKey.from_public_bytes(key).verify(raw[-64:], text.encode())
        return base64.b64encode(raw).decode() == signature
    except Exception:
        return False

def members(text):  # of an object of JSON; numbers are Decimal
    def once(pairs):
        need(len(dict(pairs)) == len(pairs), "answer malformed")
        return dict(pairs)
    try:
        found = json.loads(text, object_pairs_hook=once, parse_float=Decimal, parse_int=Decimal)
    except ValueError:
        found = None
    need(type(found) is dict, "answer malformed")
    return found

def same(name, a, b):
    if name != "amount":
        return a == b
    a, b = str(a), str(b)
    return all(re.fullmatch("[0-9]+([.][0-9]+)?", x) for x in (a, b)) and Decimal(a) == Decimal(b)

def permit(note, key):
    name, number, public = key.strip().split("+", 2)
    public = base64.b64decode(public)  # 1 for Ed25519, and the key
    note = note.replace("\r\n", "\n").rstrip("\n") + "\n"
    text, _, signatures = note.rpartition("\n\n")
    need(text and signatures.startswith("— "), "forged")
    need(signatures.count("\n") == 1, "malformed")
    signer, value = signatures[2:-1].split(" ")
    text += "\n"
    need(signer == name and public[0] == 1 and base64.b64decode(value)[:4].hex() == number and signed(public[1:], value, text), "forged")
    lines = text.split("\n")
    need(lines[0] == "countersign-permit/1" and len(lines) == 13, "malformed")
    need(all(line.startswith(name + ": ") for name, line in zip(LINES, lines[1:])), "malformed")
    return {name: unquote(line[len(name) + 2:]) for name, line in zip(LINES, lines[1:])}

def confirmed(answer, der, wanted):  # wanted: the lines of the permit
    need(answer, "answer missing")
    a = members(answer)
    need(a["signature"] and a["signatureInput"], "answer unsigned")
    input, value, asked = [re.fullmatch("countersign=(.*)", a[name]) for name in ("signatureInput", "signature", "requestSignature")]
    need(input and value and asked and input[1].startswith(COVERED + ";") and 'tag="countersign-response"' in input[1], "answer altered")
    need('keyid="' + hashlib.sha256(der).hexdigest() + '"' in input[1], "answer key")
    digests = re.fullmatch("sha-256=:([^:]*):;opened=:([^:]*):", a["contentDigest"])
    digest = lambda text: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    base = f'''"@status": {a["status"]}
"content-digest": {a["contentDigest"]}
"content-type": {a["contentType"]}
"signature";req;key="countersign": {asked[1]}
"@signature-params": {input[1]}'''
    need(digests and digests[1] == digest(a["body"]) and signed(der[12:], value[1].strip(":"), base), "answer altered")
    body = members(a["body"])
    need(type(body.get("errCode")) is Decimal, "answer malformed")
    need(body["errCode"] == 0 and a["status"] == 200, "answer refusal")
    need(digests[2] == digest(a["opened"]), "answer altered")
    opened = members(a["opened"])
    need(str(opened.get("type")) == "2", "answer malformed")
    need(all(same(name, opened.get(name), wanted[name]) for name in ["callBackId", *DETAILS]), "answer differs")

def check(v):
    need(all(v[name] for name in [*DETAILS, "claim"]) and (v["merchant"] or not v["merchantKey"]), "incomplete")
    p = permit(v["note"], v["key"])
    need(all(same(name, p[name], v[name]) for name in [*DETAILS, "claim"]) and v["merchant"] in ("", p["merchant"]), "differs")
    need(int(p["epoch"]) >= int(v["epoch"]), "epoch")
    if v["merchantKey"]:
        confirmed(v["answer"], base64.b64decode(v["merchantKey"]), p)
    need(p["duplicate"] == "false", "duplicate")

for line in sys.stdin:
    try:
        check(json.loads(line))
        print("good")
    except Refused as why:
        print(why)
    except Exception:
        print("malformed")
