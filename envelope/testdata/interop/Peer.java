// The other end in Java, as merchants and services write it. Each line on
// standard input is "operation key text" and gets one line back: the Base64 of
// the result, or "error" and why.
//
//   sealPrivate KEY TEXT   encrypt with the private part, chunk by chunk
//   sealPublic  KEY TEXT   encrypt with the public part
//   openPrivate KEY BODY   decrypt with the private part, block by block
//   openPublic  KEY BODY   decrypt with the public part
//
// KEY is the Base64 of PKCS#8 or SubjectPublicKeyInfo, TEXT the Base64 of the
// plaintext.

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.Key;
import java.security.KeyFactory;
import java.security.interfaces.RSAKey;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import javax.crypto.Cipher;

public class Peer {
    private static final Map<String, Key> keys = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line; (line = in.readLine()) != null;) {
            String[] f = line.split(" ");
            try {
                out.append(run(f[0], f[1], f[2]));
            } catch (Exception e) {
                out.append("error ").append(e.getClass().getSimpleName());
            }
            out.append('\n');
        }
        System.out.print(out);
    }

    private static String run(String operation, String keyText, String text) throws Exception {
        boolean isPrivate = operation.endsWith("Private");
        boolean seal = operation.startsWith("seal");
        Key key = keys.get(keyText);
        if (key == null) {
            byte[] der = Base64.getDecoder().decode(keyText);
            KeyFactory factory = KeyFactory.getInstance("RSA");
            key = isPrivate ? factory.generatePrivate(new PKCS8EncodedKeySpec(der))
                            : factory.generatePublic(new X509EncodedKeySpec(der));
            keys.put(keyText, key);
        }
        int size = (((RSAKey) key).getModulus().bitLength() + 7) / 8;
        int step = seal ? size - 11 : size;
        Cipher cipher = Cipher.getInstance("RSA/ECB/PKCS1Padding");
        cipher.init(seal ? Cipher.ENCRYPT_MODE : Cipher.DECRYPT_MODE, key);
        byte[] input = Base64.getDecoder().decode(text);
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        for (int i = 0; i < input.length; i += step) {
            output.write(cipher.doFinal(input, i, Math.min(step, input.length - i)));
        }
        return Base64.getEncoder().encodeToString(output.toByteArray());
    }
}
