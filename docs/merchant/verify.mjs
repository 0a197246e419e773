// Checks the signature of a forwarded message: the secret as in its file, the three headers, the body as bytes.
import { createHmac, timingSafeEqual } from 'node:crypto';

export function verify(secret, id, timestamp, signatures, body) {
  if (!/^[0-9]{1,12}$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return false;
  const key = Buffer.from(secret.trim().replace(/^whsec_/, ''), 'base64');
  if (key.length < 24) return false;
  const want = Buffer.from('v1,' + createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64'));
  return signatures.split(' ').map((s) => Buffer.from(s)).some((s) => s.length === want.length && timingSafeEqual(s, want));
}
