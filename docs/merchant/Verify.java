// Checks the signature of a forwarded message: the secret as in its file, the three headers, the body as bytes.
class Verify {
    static boolean verify(String secret, String id, String timestamp, String signatures, byte[] body) throws Exception {
        if (!timestamp.matches("[0-9]{1,12}") || Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(timestamp)) > 300) return false;
        byte[] key = java.util.Base64.getDecoder().decode(secret.trim().replaceFirst("^whsec_", ""));
        if (key.length < 24) return false;
        javax.crypto.Mac mac = javax.crypto.Mac.getInstance("HmacSHA256");
        mac.init(new javax.crypto.spec.SecretKeySpec(key, "HmacSHA256"));
        mac.update((id + "." + timestamp + ".").getBytes("UTF-8"));
        byte[] want = ("v1," + java.util.Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes("UTF-8");
        boolean good = false;
        for (String given : signatures.split(" ")) {
            good |= java.security.MessageDigest.isEqual(given.getBytes("UTF-8"), want);
        }
        return good;
    }
}
