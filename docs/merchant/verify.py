# Checks the signature of a forwarded message: the secret as in its file, the three headers, the body as bytes.
import base64, hashlib, hmac, re, time

def verify(secret, id, timestamp, signatures, body):
    if not re.fullmatch("[0-9]{1,12}", timestamp) or abs(time.time() - int(timestamp)) > 300:
        return False
    key = base64.b64decode(secret.strip().removeprefix("whsec_"))
    if len(key) < 24:
        return False
    mac = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    want = b"v1," + base64.b64encode(mac)
    return any(hmac.compare_digest(s.encode(), want) for s in signatures.split(" "))
