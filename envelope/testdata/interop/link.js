// Signs and verifies messages of the signed link with npm http-message-signatures, one
// JSON object a line: {op, message, request, key}. It answers with the headers of a
// message that it signed, or with whether a signature holds.
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

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  try {
    const asked = JSON.parse(line)
    console.log(asked.seq + ' ' + JSON.stringify(await (asked.op === 'sign' ? sign : verify)(asked)))
  } catch (err) {
    console.log('error ' + err.message.replaceAll('\n', ' '))
  }
})
