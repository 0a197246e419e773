<?php
// Checks the signature of a forwarded message: the secret as in its file, the three headers, the body as bytes.
function verify(string $secret, string $id, string $timestamp, string $signatures, string $body): bool
{
    if (!preg_match('/\A[0-9]{1,12}\z/', $timestamp) || abs(time() - (int) $timestamp) > 300) {
        return false;
    }
    $key = base64_decode(preg_replace('/\Awhsec_/', '', trim($secret)), true);
    if ($key === false || strlen($key) < 24) {
        return false;
    }
    $want = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    $good = false;
    foreach (explode(' ', $signatures) as $given) {
        $good = hash_equals($want, $given) || $good;
    }
    return $good;
}
