// Signs and verifies messages of the signed link with npm http-message-signatures, one
// JSON object a line: {op, message, request, key}. It answers with the headers of a
// message that it signed, with whether a signature holds, or with whether it takes a message.
const { createHash, createPublicKey } = require('node:crypto')
const readline = require('node:readline')
const { createSigner, createVerifier, httpbis } = require('http-message-signatures')

const sha256 = (b) => createHash('sha256').update(b)
const fingerprint = (key) => sha256(createPublicKey(key).export({ type: 'spki', format: 'der' })).digest('hex')
const profile = {
  request: ['@method', '@target-uri', 'content-digest', 'content-type'],
  response: ['@status', 'content-digest', 'content-type', 'signature;req;key="countersign"'],
}
const params = ['created', 'nonce', 'keyid', 'alg', 'tag']

async function sign({ message, request, key, body, plaintext }) {
  const kind = request ? 'response' : 'request'
  const digest = `sha-256=:${sha256(body).digest('base64')}:;opened=:${sha256(plaintext).digest('base64')}:`
  const signed = await httpbis.signMessage({
    key: createSigner(key, 'ed25519', fingerprint(key)), name: 'countersign', fields: profile[kind], params,
    paramValues: { nonce: 'made-by-node', tag: `countersign-${kind}` },
  }, { ...message, headers: { ...message.headers, 'Content-Digest': digest } }, request)
  return signed.headers
}

async function verify({ message, request, key }) {
  const kind = request ? 'response' : 'request'
  const id = fingerprint(key)
  return await httpbis.verifyMessage({
    requiredFields: profile[kind].map((f) => f.split(';')[0]), requiredParams: params,
    keyLookup: ({ keyid, tag }) => keyid === id && tag === `countersign-${kind}` ? { id, algs: ['ed25519'], verify: createVerifier(key, 'ed25519') } : null,
  }, message, request) === true
}

// take is what a receiver does (PROTOCOL.md, L2 to L8), with what the body opens to.
async function take(asked) {
  const { message, request, body64, plaintext64, now } = asked
  const kind = request ? 'response' : 'request'
  const input = message.headers['Signature-Input'] ?? ''
  const form = new RegExp(`^countersign=\\(${profile[kind].map((f) => f.replace(/^[^;]*/, '"$&"')).join(' ')}\\);created=([0-9]+);nonce="[^"]{1,64}";` +
    `keyid="[0-9a-f]{64}";alg="ed25519";tag="countersign-${kind}"$`)
  const created = Number(form.exec(input)?.[1])
  const signature = /^countersign=:([A-Za-z0-9+/]{86}==):$/.exec(message.headers.Signature ?? '')?.[1]
  if (!(Math.abs(now - created) <= 300) || !signature || Buffer.from(signature, 'base64').toString('base64') !== signature) return false
  const digest = (b) => sha256(Buffer.from(b, 'base64')).digest('base64')
  const opened = plaintext64 ? `;opened=:${digest(plaintext64)}:` : ''
  if (message.headers['Content-Digest'] !== `sha-256=:${digest(body64)}:${opened}`) return false
  return await verify(asked).catch(() => false)
}

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  try {
    const asked = JSON.parse(line)
    console.log(asked.seq + ' ' + JSON.stringify(await ({ sign, verify, take })[asked.op](asked)))
  } catch (err) {
    console.log('error ' + err.message.replaceAll('\n', ' '))
  }
})
