// A merchant's end of the custody callbacks for Node 18 or newer, without any
// package. Copy it and put your own ledger where it says CREDIT.
//
// The rule numbers (S5, M2, B3 ...) are those of PROTOCOL.md. Settings come from
// the environment; see README.md beside this folder.
//
// Accepted callbacks are recorded in STATE_FILE, one JSON text a line, and are on
// disk before the answer is sent. Without STATE_FILE they are kept in memory only,
// and a deposit that is sent again after a restart is credited again: use that
// only for trying out.

import { createServer } from 'node:http';
import { createHash, createPrivateKey, createPublicKey, publicDecrypt, publicEncrypt, randomBytes, sign, timingSafeEqual, verify, constants } from 'node:crypto';
import { existsSync, fchmodSync, fsyncSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs';

const env = process.env;
const key = createPublicKey(readKey(env.KEY_FILE)); // what the service gave you: a secret (K5)
const apiKey = need('API_KEY');                     // goes into every response (R1)
const callbackKey = env.CALLBACK_API_KEY;           // must come in X-API-KEY (H2); not set: the service sends none
const other = env.PROVIDER === 'other';             // a service that may not bind and has other forms (P1)
const hold = Number(env.HOLD_MS ?? (other ? 25_000 : 0)); // how long a question about an unknown order stays open (P1)
const grace = Number(env.GRACE_MS ?? 30_000);       // how long such an order is not known yet, before it is refused
const bodyTimeout = Number(env.BODY_TIMEOUT_MS || 10_000);
const ownSigner = env.SIGN_KEY_FILE && createPrivateKey(readFileSync(env.SIGN_KEY_FILE)); // signs answers (L9)
const serviceSigner = env.SERVICE_SIGNING_KEY_FILE && createPublicKey(readKey(env.SERVICE_SIGNING_KEY_FILE)); // signs every request (L11)
const publicURL = serviceSigner && need('PUBLIC_URL').replace(/\/$/, ''); // a signature covers it (L3); whoever sends a request chooses its Host
const notifyPath = '/callbacks/notify', withdrawPath = '/callbacks/withdraw';
const maxBody = 65_536; // bytes, H2
const blockSize = key.asymmetricKeyDetails.modulusLength / 8; // from the modulus, never a constant (K6)

function need(name) {
  if (!env[name]) throw new Error(`${name} is not set`);
  return env[name];
}

function readKey(file) { // PEM, or the bare Base64 of the same bytes (K2)
  const text = readFileSync(file, 'utf8').trim();
  if (text.startsWith('-----')) return text;
  return { key: Buffer.from(text, 'base64'), format: 'der', type: 'spki' };
}

// A refusal carries the errCode of PROTOCOL.md, Error codes, and the HTTP status.
class Refusal extends Error {
  constructor(code, message, status = 200) { super(message); this.code = code; this.status = status; }
}
const cannotOpen = (why) => new Refusal(1001, `the request cannot be opened: ${why}`, 400);
const malformed = (why) => new Refusal(1002, `the request is malformed: ${why}`, 400);

// ---- Body forms (F1-F3) and Base64 (S4, S5)

function sealedBytes(body) {
  let text = body.toString('latin1').replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, '');
  if (text.startsWith('"') || text.startsWith('{')) {
    let v;
    try { v = parseJSON(text); } catch { throw cannotOpen('no known body form'); }
    text = v instanceof Map ? v.get('data') : v;
    if (typeof text !== 'string') throw cannotOpen('no text in data');
  } else if (text.startsWith('data=') || text.includes('&')) {
    const fields = text.split('&').filter((f) => f.startsWith('data='));
    if (fields.length !== 1) throw cannotOpen('a form has data once');
    // A + that was not written as %2B becomes a space here, which is refused below (F3).
    try { text = decodeURIComponent(fields[0].slice(5).replaceAll('+', ' ')); } catch { throw cannotOpen('no sound form'); }
  }
  text = text.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, '').replace(/[\r\n]/g, '');
  const raw = Buffer.from(text, 'base64'); // forgives everything, so compare with its inverse
  if (raw.length === 0 || raw.toString('base64') !== text) throw cannotOpen('not standard Base64');
  return raw;
}

// ---- Opening and sealing (S1-S5)

function blocksOf(raw) {
  if (raw.length % blockSize !== 0) throw cannotOpen('not a whole number of blocks');
  const blocks = [];
  for (let i = 0; i < raw.length; i += blockSize) blocks.push(raw.subarray(i, i + blockSize));
  return blocks;
}

function openBlock(block) {
  let b;
  try {
    b = publicDecrypt({ key, padding: constants.RSA_NO_PADDING }, block); // refuses what is not below the modulus
  } catch { throw cannotOpen('a block is out of range'); }
  let i = 2;
  while (i < b.length && b[i] === 0xff) i++;
  if (b[0] !== 0 || b[1] !== 1 || i < 10 || b[i] !== 0 || i + 1 >= b.length) throw cannotOpen('a block is not of type 1');
  return b.subarray(i + 1);
}

function seal(answer) { // block type 2, each chunk at most k - 11 bytes
  const plain = Buffer.from(answer.address ? grouped(answer) : write(answer)), size = blockSize - 11, blocks = [];
  for (let i = 0; i < plain.length; i += size) {
    blocks.push(publicEncrypt({ key, padding: constants.RSA_PKCS1_PADDING }, plain.subarray(i, i + size)));
  }
  return { data: Buffer.concat(blocks).toString('base64'), plain };
}

function write(answer) {
  return `{${Object.entries(answer).map(([name, v]) => `"${name}":${jsonText(v)}`)}}`;
}

function jsonText(v) { return v instanceof Num ? v.text : JSON.stringify(v); }

// A service that was not given the details of a withdrawal confirms them only where
// each lies in one block with callBackId or requestUUID. So they come in two groups,
// and the second begins a block where it does not fit into the first (D7, R7).
function grouped(answer) {
  const group = (...names) => write(pick(answer, ...names)).slice(1, -1);
  const first = `{${group('callBackId', 'address')},`, second = group('chainName', 'symbol', 'amount', 'requestUUID');
  const size = blockSize - 11, room = size - Buffer.byteLength(first) % size;
  return first + (Buffer.byteLength(second) > room ? ' '.repeat(room) : '') + second + `,${group('type', 'tenantUserId')}}`;
}

// ---- Strict JSON (M1, M2). JSON.parse takes the last of two equal members and
// turns 3.0 into 3. Here objects become Maps, and numbers stay text in a Num.

class Num { constructor(text) { this.text = text; } }
const words = new Map([['true', true], ['false', false], ['null', null]]);

function parseJSON(text) {
  let at = 0;
  const bad = (what) => { throw malformed(`${what} at character ${at}`); };
  const space = () => { while (' \t\r\n'.includes(text[at] || '-')) at++; };
  function string() {
    const m = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
    m.lastIndex = at;
    const found = m.exec(text);
    if (!found) bad('no string');
    at = m.lastIndex;
    const s = JSON.parse(found[0]);
    // \p{Cs} finds a surrogate that has no partner.
    if (s.includes('\0') || /\p{Cs}/u.test(s)) bad('U+0000 or half a character');
    return s;
  }
  function value(depth) {
    space();
    if (text[at] === '"') return string();
    if ((text[at] === '{' || text[at] === '[') && depth > 16) bad('nested too deeply');
    if (text[at] === '{') {
      const o = new Map();
      at++; space();
      if (text[at] === '}') { at++; return o; }
      for (;;) {
        space();
        const name = string();
        if (o.has(name)) bad(`${name} is there twice`);
        space();
        if (text[at++] !== ':') bad('no colon');
        o.set(name, value(depth + 1));
        space();
        const c = text[at++];
        if (c === '}') return o;
        if (c !== ',') bad('no comma');
      }
    }
    if (text[at] === '[') {
      const a = [];
      at++; space();
      if (text[at] === ']') { at++; return a; }
      for (;;) {
        a.push(value(depth + 1));
        space();
        const c = text[at++];
        if (c === ']') return a;
        if (c !== ',') bad('no comma');
      }
    }
    const m = /true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
    m.lastIndex = at;
    const found = m.exec(text);
    if (!found) bad('no value');
    at = m.lastIndex;
    return words.has(found[0]) ? words.get(found[0]) : new Num(found[0]);
  }
  const v = value(1);
  space();
  if (at !== text.length) bad('more behind the message');
  return v;
}

// ---- Messages (M3-M5, A1): t text, e text that may be empty, n whole number,
// a amount; ? may be absent or null, L may be if PROVIDER is other.

const members = {
  1: { trackingId: 't', tenantUserId: 't', txId: 't', chainName: 't', symbol: 't', amount: 'a', fromAddress: 'eL', toAddress: 't',
    riskLevelFrom: 'nL', riskLevelTo: 'nL', txIndex: 'nL', newAddress: 'eL', business: 'nL', requestUUID: 't' },
  2: { trackingId: 'tL', tenantUserId: 'tL', callBackId: 't', business: 'nL', requestUUID: 't' },
  3: { trackingId: 't', tenantUserId: 't', callBackId: 't', txId: 't', chainName: 'tL', symbol: 'tL', amount: 'aL', fromAddress: 'e?',
    toAddress: 'tL', newAddress: 'e?', business: 'nL', requestUUID: 't' },
  4: { trackingId: 'e?', tenantUserId: 't', chainName: 'tL', symbol: 'tL', toAddress: 'e?', newAddress: 't', business: 'nL', requestUUID: 't' },
  5: { trackingId: 't', tenantUserId: 't', callBackId: 't', toAddress: 'e?', business: 'nL', requestUUID: 't' },
  6: { trackingId: 't', tenantUserId: 't', callBackId: 't', business: 'nL', requestUUID: 't' },
};
members[7] = members[6];
const ranges = { riskLevelFrom: [0, 100], riskLevelTo: [0, 100], txIndex: [-1, Number.MAX_SAFE_INTEGER] };
const fold = (name) => name.toUpperCase().toLowerCase();

function parseCallback(plain) {
  let text;
  try { text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(plain); } catch { throw malformed('not UTF-8'); }
  const o = parseJSON(text);
  if (!(o instanceof Map)) throw malformed('not an object');
  const asSent = other ? usualForms(o) : {};
  const type = whole(o, 'type');
  if (!members[type]) throw new Refusal(1003, 'the callback type is unknown');
  const known = { ...members[type] }, m = { type };
  for (const [name, kind] of Object.entries(known)) {
    const v = o.get(name) ?? null;
    if (v === null && kind.endsWith('?') || (v === null || v === '') && kind.endsWith('L') && other) continue;
    if (kind.startsWith('n')) m[name] = whole(o, name);
    else if (typeof v !== 'string' || (v === '' && !kind.startsWith('e'))) throw malformed(`${name} is missing or no text`);
    else m[name] = v;
    if (kind.startsWith('a') && (!/^(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$/.test(v) || v.replace('.', '').length > 78)) throw malformed('amount');
  }
  for (const name of o.keys()) { // M2: another case of a known name would be read by lax parsers
    if (name !== 'type' && !Object.hasOwn(known, name) && ['type', ...Object.keys(known)].some((k) => fold(k) === fold(name))) {
      throw malformed(`${name} is in another case`);
    }
  }
  if (type === 1) m.txIndex ??= -1;
  const kept = pick(asSent, 'type', ...Object.keys(known));
  return Object.keys(kept).length ? { ...m, asSent: kept } : m;
}

const ids = ['trackingId', 'tenantUserId', 'callBackId'], noEffect = ['riskLevelFrom', 'riskLevelTo', 'business'];

// M12: other forms of members become the interface's own where they say the same.
// The result has them as they were sent.
function usualForms(o) {
  const asSent = {};
  for (const [name, v] of o) {
    const text = v instanceof Num ? v.text : v;
    let usual = v;
    if (ids.includes(name)) usual = v instanceof Num && /^[0-9]+$/.test(text) ? text : v;
    else if (name === 'amount') usual = typeof text === 'string' ? plainAmount(text) : v;
    else if (name === 'type' || name === 'txIndex' || noEffect.includes(name)) {
      if (typeof v === 'string') usual = new Num(v);
      if (noEffect.includes(name) && !isWhole(name, usual)) usual = null;
    }
    if (usual === v) continue;
    o.set(name, usual);
    asSent[name] = jsonText(v);
  }
  return asSent;
}

// A4: an exponent moves the point. Nothing is computed, so nothing is lost.
function plainAmount(text) {
  const found = /^(0|[1-9][0-9]{0,77})(?:\.([0-9]{1,78}))?[eE]([+-]?0*[0-9]{1,3})$/.exec(text);
  if (!found) return text;
  const shifted = found[1].length + Number(found[3]), point = Math.max(shifted, 1);
  const digits = '0'.repeat(Math.max(1 - shifted, 0)) + found[1] + (found[2] || '');
  const whole = digits.slice(0, point).padEnd(point, '0').replace(/^0+(?=.)/, '');
  let fraction = digits.slice(point);
  if (whole.length + fraction.length > 78) fraction = fraction.replace(/0+$/, '');
  return fraction ? `${whole}.${fraction}` : whole;
}

function whole(o, name) {
  if (!isWhole(name, o.get(name))) throw malformed(`${name} is not a whole number in its range`);
  return Number(o.get(name).text);
}

function isWhole(name, v) { // M4: no fraction, no exponent, exact
  const [low, high] = ranges[name] || [-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
  return v instanceof Num && /^(?:0|-?[1-9][0-9]*)$/.test(v.text) && low <= Number(v.text) && Number(v.text) <= high;
}

// ---- Binding (B1-B5)

function checkBinding(plain, uuid, blocks) {
  const version8 = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(uuid);
  if (!other || version8) {
    // A message cannot hold the UUID a second time, because the UUID was made from it.
    const at = plain.indexOf(uuid);
    if (!version8 || at < 0 || plain.indexOf(uuid, at + 1) >= 0) throw new Refusal(1002, 'the request is not bound');
    const unbound = Buffer.from(plain);
    unbound.fill('0', at, at + 36);
    const id = Buffer.from(uuid.replaceAll('-', ''), 'hex');
    const h = createHash('sha256').update('countersign request binding 1\n').update(id.subarray(0, 6)).update(unbound).digest();
    h[0] = 0x80 | (h[0] & 0x0f);
    h[2] = 0x80 | (h[2] & 0x3f);
    if (!h.subarray(0, 10).equals(id.subarray(6))) throw new Refusal(1002, 'the request is not bound');
    return;
  }
  // B5: a block that holds the requestUUID comes in one request alone.
  const digest = (b) => createHash('sha256').update(b).digest('hex');
  const body = digest(Buffer.concat(blocks));
  const own = blocks.filter((b) => holds(openBlock(b).toString('latin1'), uuid)).map(digest);
  if (own.some((b) => (state.blocks.get(b) ?? body) !== body)) throw new Refusal(1002, 'the request repeats blocks of another one');
  for (const block of own) if (!state.blocks.has(block)) remember({ block, body });
}

// holds says whether a block holds all of a requestUUID, or half of a random one or more.
function holds(text, uuid) {
  if (text.includes(uuid)) return true;
  if (!/^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$/i.test(uuid)) return false;
  for (let n = uuid.length / 2; n < uuid.length; n++) {
    if (text.endsWith(uuid.slice(0, n)) || text.startsWith(uuid.slice(-n))) return true;
  }
  return false;
}

// ---- Accepted callbacks (I1-I3)

const state = { taken: new Map(), transfers: new Map(), confirmed: new Map(), ended: new Set(), blocks: new Map() };
const stateFile = env.STATE_FILE ? openState(env.STATE_FILE) : null;

function openState(file) {
  load(file);
  const f = openSync(file, 'a', 0o600);
  fchmodSync(f, 0o600); // also where others could read it before
  return f;
}

function load(file) {
  if (!existsSync(file)) return;
  const data = readFileSync(file), whole = data.subarray(0, data.lastIndexOf(10) + 1);
  truncateSync(file, whole.length); // half a line was never answered for, so it comes again
  for (const line of whole.toString().split('\n').slice(0, -1)) apply(JSON.parse(line));
}

// remember writes to the disk first, so that memory never holds more than the disk.
// It is synchronous, so two attempts of one callback cannot interleave.
function remember(record) {
  if (stateFile !== null) {
    try {
      const line = Buffer.from(JSON.stringify(record) + '\n');
      // A disk that becomes full takes a part and reports no error.
      if (writeSync(stateFile, line) !== line.length) throw new Error('written in part');
      fsyncSync(stateFile);
    } catch (e) {
      console.error('the state cannot be kept:', e.message);
      process.exit(1); // whoever cannot keep may not answer; the service tries again
    }
  }
  apply(record);
}

function apply(r) {
  if (r.block) state.blocks.set(r.block, r.body);
  if (r.confirmed) state.confirmed.set(r.confirmed, r);
  if (r.taken) {
    state.taken.set(r.taken, contentOf(r.callback));
    if (r.callback.type === 3 || r.callback.type === 5) state.ended.add(r.callback.callBackId);
    if (r.callback.type === 1) {
      const transfer = transferOf(r.callback);
      state.transfers.set(transfer, [...(state.transfers.get(transfer) || []), r.callback]);
    }
  }
}

function evm(a) { return /^0x[0-9a-fA-F]{40}$/.test(a) ? a.toLowerCase() : a; } // D2

// contentOf is what the effect of a callback rests on. Amounts count by value (A2).
function contentOf(m) {
  const to = m.type === 5 ? '' : evm(m.toAddress || ''), replaced = m.type === 4 ? evm(m.newAddress) : '';
  return JSON.stringify([m.tenantUserId, m.callBackId, m.txId, m.chainName, m.symbol, plain(m.amount), to, replaced]);
}

// plain is the shortest form of an amount (A2).
function plain(amount) {
  return amount?.includes('.') ? amount.replace(/\.?0+$/, '') : amount;
}

// transferOf is what moved to where, without regard to spelling (I3).
function transferOf(m) {
  const fold = (s) => s.replace(/[^!-~]/g, '').toLowerCase();
  const hex = (s) => fold(s).replace(/^0x/, '');
  return JSON.stringify([fold(m.chainName), hex(m.txId), fold(m.symbol), hex(m.toAddress)]);
}

function take(m) {
  const id = JSON.stringify([m.type, m.trackingId || m.requestUUID, m.callBackId]), before = state.taken.get(id);
  if (before === contentOf(m)) return; // I1: told before; answered again, done once
  if (before !== undefined) {
    console.error('ALARM: known with other content:', id);
    throw new Refusal(2002, 'the identifier is known with other content');
  }
  const record = { taken: id, callback: m };
  if (m.type === 1) {
    // I2: a possible duplicate. It is recorded, but credited only after a person has decided.
    record.possibleDuplicate = (state.transfers.get(transferOf(m)) || []).some((d) =>
      plain(d.amount) === plain(m.amount) || d.txIndex === m.txIndex || d.txIndex < 0 || m.txIndex < 0);
  }
  // CREDIT: this line is the effect. With a database, insert the trackingId into a
  // unique column and credit m.tenantUserId in the same transaction, unless the
  // deposit is a possible duplicate. Types 3 to 7 are notices: M8, M9.
  remember(record);
}

// ---- Answers (R2-R5)

function pick(m, ...names) {
  return Object.fromEntries(names.filter((n) => m[n] !== undefined).map((n) => [n, m[n]]));
}

function answerTo(m) {
  if (m.type === 1) {
    take(m);
    return { ...pick(m, 'type', 'trackingId', 'txId', 'txIndex', 'chainName', 'symbol', 'amount', 'fromAddress', 'toAddress', 'tenantUserId'),
      callBackId: null, state: null, tenantType: null, requestUUID: m.requestUUID };
  }
  if (m.type === 2) {
    return { ...pick(m, 'type', 'tenantUserId', 'callBackId'), ...detailsOf(m), requestUUID: m.requestUUID };
  }
  take(m);
  const a = pick(m, 'type', 'trackingId', 'tenantUserId', 'callBackId', 'txId', 'chainName', 'symbol', 'amount', 'fromAddress', 'toAddress');
  if (m.type === 4) a.toAddress = m.newAddress; // M8
  return { ...a, requestUUID: m.requestUUID };
}

// A withdrawal is confirmed from your own order book. The request gives only the
// two identifiers. A confirmation is repeated for every later request (D4), until the
// withdrawal has ended or you mark its order as cancelled (I1). Other services name no user, and then callBackId alone finds the order.
function detailsOf(m) {
  const order = JSON.parse(readFileSync(need('ORDERS_FILE'), 'utf8')).find((o) => o.callBackId === m.callBackId);
  if (!order) throw unknownOrder(m.callBackId);
  asked.delete(m.callBackId);
  if (order.tenantUserId !== (m.tenantUserId ?? order.tenantUserId)) throw new Refusal(2002, 'the order is of another user');
  if (order.cancelled || state.ended.has(m.callBackId)) {
    console.error('ALARM: asked about an order that has ended:', m.callBackId);
    throw new Refusal(2005, 'the order has ended');
  }
  const confirmed = state.confirmed.get(m.callBackId);
  // I1: one order pays one withdrawal. Files of earlier versions lack the trackingId.
  const trackingId = m.trackingId ?? null;
  if (confirmed && 'trackingId' in confirmed && confirmed.trackingId !== trackingId) throw new Refusal(2002, 'the order is of another withdrawal');
  if (confirmed) return confirmed.details;
  const details = pick(order, 'tenantUserId', 'address', 'chainName', 'symbol', 'amount');
  remember({ confirmed: m.callBackId, trackingId, details });
  return details;
}

// The question may come before the order: it is held, by a code that makes the service ask
// again, until the order had time to come (P1).
const asked = new Map(); // callBackId: when it was asked first
function unknownOrder(id) {
  if (!asked.has(id) && asked.size >= 10_000) asked.delete(asked.keys().next().value);
  if (!asked.has(id)) asked.set(id, Date.now());
  if (Date.now() - asked.get(id) < grace) return new Refusal(3002, 'the order is not known yet');
  return new Refusal(2001, 'the order is unknown');
}

// ---- HTTP (H2)

function readBody(req) { // bounded in size and in time; 0 bytes too many or too late never reach RSA
  return new Promise((resolve) => {
    const chunks = [];
    let size = 0;
    const end = (result) => { clearTimeout(timer); req.removeAllListeners('data'); req.resume(); resolve(result); };
    const timer = setTimeout(() => end({ status: 408 }), bodyTimeout);
    req.on('data', (c) => {
      size += c.length;
      if (size > maxBody) end({ status: 413 });
      else chunks.push(c);
    });
    req.on('end', () => end({ body: Buffer.concat(chunks) }));
    req.on('error', () => end({ status: 400 }));
  });
}

const sha256 = (s) => createHash('sha256').update(s).digest();

// ---- The signed link (L1-L12). With SIGN_KEY_FILE answers to signed requests are signed;
// with SERVICE_SIGNING_KEY_FILE nothing is taken that the service did not sign.

const notSigned = (word) => new Refusal(1002, word);
const fingerprint = (publicKey) => sha256(publicKey.export({ format: 'der', type: 'spki' })).toString('hex'); // K7
const inLink = /(?:^|,)[ \t]*countersign=/;
const signatureIn = /(?:^|,)[ \t]*countersign=(:([A-Za-z0-9+/]{86}==):)[ \t]*(?:,|$)/;
const inputIn = /(?:^|,)[ \t]*countersign=(\("@method" "@target-uri" "content-digest" "content-type"\)((?:;[a-z]+=(?:[0-9]+|"[^"\\]*"))+))[ \t]*(?:,|$)/;
const digestIn = /(?:^|,)[ \t]*sha-256=:([A-Za-z0-9+/]{43}=):;opened=:([A-Za-z0-9+/]{43}=):[ \t]*(?:,|$)/;

// verified looks at the signature of a request, before anything is opened.
function verified(req, body) {
  if (!serviceSigner) return null;
  const { signature = '', 'signature-input': input = '', 'content-digest': digest = '', 'content-type': type = '' } = req.headers;
  if (!inLink.test(signature) || !inLink.test(input)) throw notSigned('unsigned');
  const made = signatureIn.exec(signature), by = inputIn.exec(input), over = digestIn.exec(digest);
  if (!made || !by || !over) throw notSigned('signature_invalid');
  const raw = Buffer.from(made[2], 'base64');
  const params = by[2].slice(1).split(/;(?=[a-z]+=)/).map((p) => p.split(/=(.*)/s, 2));
  const p = Object.fromEntries(params);
  const right = raw.toString('base64') === made[2] && params.length === 5 && /^[0-9]{1,15}$/.test(p.created) && /^"[ -~]{1,64}"$/.test(p.nonce) &&
    p.keyid === `"${fingerprint(serviceSigner)}"` && p.alg === '"ed25519"' && p.tag === '"countersign-request"' && over[1] === sha256(body).toString('base64');
  const holds = () => verify(null, Buffer.from(`"@method": ${req.method}\n"@target-uri": ${publicURL}${req.url}\n"content-digest": ${digest}\n` +
    `"content-type": ${type}\n"@signature-params": ${by[1]}`, 'latin1'), serviceSigner, raw);
  if (!right || !holds()) throw notSigned('signature_invalid');
  return { opened: over[2], old: Math.abs(Date.now() / 1000 - Number(p.created)) > 300 };
}

// checkLink looks at what can be told only when the request is open (L6, L8).
const recent = new Set(); // requestUUIDs of signed requests that were taken
function checkLink(link, plain, uuid) {
  if (!link) return;
  if (link.opened !== sha256(plain).toString('base64')) throw notSigned('signature_invalid');
  if (link.old && !recent.has(uuid)) throw notSigned('signature_old');
  recent.add(uuid);
  if (recent.size > 4096) recent.delete(recent.values().next().value);
}

// signatureOf gives the headers that sign a response, for this request alone (L4).
function signatureOf(req, status, body, plain) {
  const asked = ownSigner && signatureIn.exec(req.headers.signature ?? '');
  if (!asked) return {};
  const digest = `sha-256=:${sha256(body).toString('base64')}:${plain ? `;opened=:${sha256(plain).toString('base64')}:` : ''}`;
  const params = `("@status" "content-digest" "content-type" "signature";req;key="countersign");created=${Math.floor(Date.now() / 1000)};` +
    `nonce="${randomBytes(16).toString('base64')}";keyid="${fingerprint(createPublicKey(ownSigner))}";alg="ed25519";tag="countersign-response"`;
  const base = `"@status": ${status}\n"content-digest": ${digest}\n"content-type": application/json\n"signature";req;key="countersign": ${asked[1]}\n"@signature-params": ${params}`;
  return { 'Content-Digest': digest, 'Signature-Input': `countersign=${params}`, Signature: `countersign=:${sign(null, Buffer.from(base), ownSigner).toString('base64')}:` };
}

function handle(path, body, link) {
  const blocks = blocksOf(sealedBytes(body));
  const plain = Buffer.concat(blocks.map(openBlock));
  const m = parseCallback(plain);
  checkLink(link, plain, m.requestUUID);
  if ((m.type === 2) !== (path === withdrawPath)) throw new Refusal(1004, 'the callback type does not belong to this URL');
  checkBinding(plain, m.requestUUID, blocks);
  const answer = answerTo(m);
  // What came in another form goes back in that form (M12).
  for (const name in pick(m.asSent || {}, ...Object.keys(answer))) answer[name] = new Num(m.asSent[name]);
  return seal(answer);
}

// A service to which any errCode may be a refusal is kept waiting for the order, at most 64 at once.
let waiting = 0;
async function held(req, answer) {
  const until = Date.now() + hold;
  for (;;) {
    try {
      return answer();
    } catch (e) {
      if (e.code !== 3002 || Date.now() >= until || req.socket.destroyed || waiting >= 64) throw e;
    }
    waiting++;
    await new Promise((resolve) => setTimeout(resolve, 500));
    waiting--;
  }
}

// Headers that do not end must not hold a connection either. Node looks at its
// connections at intervals.
const limits = { headersTimeout: bodyTimeout, requestTimeout: 3 * bodyTimeout, connectionsCheckingInterval: Math.min(bodyTimeout, 1000) };
const server = createServer(limits, async (req, res) => {
  const { body, status } = await readBody(req);
  const end = (code, response, plain) => {
    if (status) res.setHeader('Connection', 'close');
    const text = response && JSON.stringify({ apiKey, ...response });
    res.writeHead(code, { 'Content-Type': 'application/json', ...(text ? signatureOf(req, code, text, plain) : {}) });
    res.end(text);
    if (status === 408) res.on('finish', () => req.destroy());
  };
  if (req.url !== notifyPath && req.url !== withdrawPath) return end(404);
  if (req.method !== 'POST') return end(405);
  // Digests have the same length, so the comparison always takes the same time.
  if (callbackKey && !timingSafeEqual(sha256(req.headers['x-api-key'] || ''), sha256(callbackKey))) return end(401);
  if (status) return end(status);
  try {
    const link = verified(req, body);
    const { data, plain } = await held(req, () => handle(req.url, body, link));
    end(200, { data, errCode: 0, message: '' }, plain);
  } catch (e) {
    if (e instanceof Refusal) return end(e.status, { data: '', errCode: e.code, message: e.message });
    console.error('callback failed:', e); // the log gets the cause, the peer a fixed word
    end(200, { data: '', errCode: 5000, message: 'internal error' });
  }
});

const [host, port] = (env.LISTEN || '127.0.0.1:8090').split(/:(?=[0-9]+$)/);
server.listen(Number(port), host, () => console.log(`listening on http://${host}:${server.address().port}`));
