// The other end in Node. Each line on standard input is "operation key text" and
// gets one line back: the Base64 of the result, or "error" and why. The operations
// are those of Peer.java, but for openPrivate: Node 20 refuses to decrypt
// PKCS#1 v1.5 with a private key.
'use strict';
const crypto = require('node:crypto');
const { constants } = crypto;

const keys = new Map();

function parse(text, isPrivate) {
  if (!keys.has(text)) {
    const der = Buffer.from(text, 'base64');
    keys.set(text, isPrivate
      ? crypto.createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
      : crypto.createPublicKey({ key: der, format: 'der', type: 'spki' }));
  }
  return keys.get(text);
}

const operations = {
  sealPrivate: crypto.privateEncrypt,
  sealPublic: crypto.publicEncrypt,
  openPublic: crypto.publicDecrypt,
};

function run(operation, keyText, text) {
  const key = parse(keyText, operation.endsWith('Private'));
  const size = Math.ceil(key.asymmetricKeyDetails.modulusLength / 8);
  const step = operation.startsWith('seal') ? size - 11 : size;
  const input = Buffer.from(text, 'base64');
  const output = [];
  for (let i = 0; i < input.length; i += step) {
    output.push(operations[operation]({ key, padding: constants.RSA_PKCS1_PADDING }, input.subarray(i, i + step)));
  }
  return Buffer.concat(output).toString('base64');
}

const out = [];
for (const line of require('node:fs').readFileSync(0, 'utf8').split('\n')) {
  if (line === '') continue;
  const [operation, key, text] = line.split(' ');
  try {
    out.push(run(operation, key, text));
  } catch (e) {
    out.push('error ' + (e.code || e.message));
  }
}
process.stdout.write(out.join('\n') + '\n');
