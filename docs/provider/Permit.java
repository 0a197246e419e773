import java.math.BigDecimal;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.*;
import java.security.spec.X509EncodedKeySpec;
import java.util.*;
import java.util.regex.*;

class Permit {
    static final List<String> DETAILS = List.of("address", "chainName", "symbol", "amount");
    static final List<String> LINES = List.of("merchant", "callBackId", "withdrawal", "address", "chainName", "symbol", "amount",
        "claim", "epoch", "time", "duplicate");
    static final String COVERED = "(\"@status\" \"content-digest\" \"content-type\" \"signature\";req;key=\"countersign\");";

    static void need(boolean holds, String why) {
        if (!holds) throw new IllegalStateException(why);
    }

    static boolean signed(byte[] key, String signature, String text) { // key: a DER SubjectPublicKeyInfo
        try {
            byte[] raw = Base64.getDecoder().decode(signature);
            Signature v = Signature.getInstance("Ed25519");
            v.initVerify(KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(key)));
            v.update(text.getBytes(StandardCharsets.UTF_8));
            return v.verify(raw, raw.length - 64, 64) && Base64.getEncoder().encodeToString(raw).equals(signature);
        } catch (GeneralSecurityException | IllegalArgumentException e) {
            return false;
        }
    }

    static byte[] sha256(byte[] of) throws Exception {
        return MessageDigest.getInstance("SHA-256").digest(of);
    }

    static String digest(String text) throws Exception {
        return Base64.getEncoder().encodeToString(sha256(text.getBytes(StandardCharsets.UTF_8)));
    }

    // An object of JSON without objects in it. Texts begin with a quote, so that "0" is not 0.
    static Map<String, String> members(String json) {
        Pattern text = Pattern.compile("\"((?:[^\"\\\\\\p{Cntrl}]|\\\\(?:[\"\\\\/bfnrt]|u[0-9a-fA-F]{4}))*+)\"");
        Matcher m = Pattern.compile("\\s*" + text + "\\s*:\\s*(" + text + "|[-+.0-9eE]+|true|false|null)\\s*([,}])").matcher(json);
        Map<String, String> found = new HashMap<>();
        int at = json.indexOf('{') + 1;
        need(json.substring(0, at).strip().equals("{"), "answer malformed");
        for (String end = ","; end.equals(","); at = m.end(), end = m.group(4)) {
            need(m.region(at, json.length()).lookingAt(), "answer malformed");
            String value = m.group(3) == null ? m.group(2) : "\"" + unescape(m.group(3));
            need(found.put(unescape(m.group(1)), value) == null, "answer malformed");
        }
        need(json.substring(at).isBlank(), "answer malformed");
        return found;
    }

    static String unescape(String s) {
        return Pattern.compile("\\\\(u(....)|.)").matcher(s).replaceAll(m -> Matcher.quoteReplacement(m.group(2) != null
            ? "" + (char) Integer.parseInt(m.group(2), 16)
            : "" + "\"\\/\b\f\n\r\t".charAt("\"\\/bfnrt".indexOf(m.group(1)))));
    }

    static String text(Map<String, String> of, String name) {
        String value = of.getOrDefault(name, "");
        return value.startsWith("\"") ? value.substring(1) : value;
    }

    static boolean same(String name, String a, String b) {
        String amount = "[0-9]+([.][0-9]+)?";
        return !name.equals("amount") ? a.equals(b)
            : a.matches(amount) && b.matches(amount) && new BigDecimal(a).compareTo(new BigDecimal(b)) == 0;
    }

    static Map<String, String> permit(String note, String key) throws Exception {
        String[] k = key.strip().split("\\+", 3);
        byte[] pub = Base64.getDecoder().decode(k[2]); // 1 for Ed25519, and the key
        note = note.replace("\r\n", "\n").replaceAll("\n+$", "") + "\n";
        int at = note.lastIndexOf("\n\n— ");
        need(at > 0, "forged");
        String text = note.substring(0, at + 1), signature = note.substring(at + 4);
        need(signature.indexOf('\n') == signature.length() - 1, "malformed");
        String[] sig = signature.strip().split(" ");
        byte[] der = HexFormat.of().parseHex("302a300506032b6570032100" + HexFormat.of().formatHex(pub, 1, 33));
        need(sig[0].equals(k[0]) && pub[0] == 1 && signed(der, sig[1], text)
            && HexFormat.of().formatHex(Base64.getDecoder().decode(sig[1]), 0, 4).equals(k[1]), "forged");
        List<String> lines = List.of(text.split("\n"));
        need(lines.get(0).equals("countersign-permit/1") && lines.size() == 12, "malformed");
        Map<String, String> found = new HashMap<>();
        for (int i = 0; i < LINES.size(); i++) {
            String name = LINES.get(i), line = lines.get(i + 1);
            need(line.startsWith(name + ": "), "malformed");
            found.put(name, URLDecoder.decode(line.substring(name.length() + 2).replace("+", "%2B"), StandardCharsets.UTF_8));
        }
        return found;
    }

    static void confirmed(String answer, byte[] der, Map<String, String> wanted) throws Exception {
        need(!answer.isEmpty(), "answer missing");
        Map<String, String> a = members(answer);
        need(!text(a, "signature").isEmpty() && !text(a, "signatureInput").isEmpty(), "answer unsigned");
        String label = "countersign=", input = text(a, "signatureInput"), value = text(a, "signature"), asked = text(a, "requestSignature");
        need(input.startsWith(label + COVERED) && input.contains("tag=\"countersign-response\"") && value.startsWith(label + ":")
            && asked.startsWith(label + ":"), "answer altered");
        need(input.contains("keyid=\"" + HexFormat.of().formatHex(sha256(der)) + "\""), "answer key");
        Matcher digests = Pattern.compile("sha-256=:([^:]*):;opened=:([^:]*):").matcher(text(a, "contentDigest"));
        String base = "\"@status\": " + text(a, "status") + "\n\"content-digest\": " + text(a, "contentDigest")
            + "\n\"content-type\": " + text(a, "contentType") + "\n\"signature\";req;key=\"countersign\": " + asked.substring(label.length())
            + "\n\"@signature-params\": " + input.substring(label.length());
        need(digests.matches() && digests.group(1).equals(digest(text(a, "body")))
            && signed(der, value.substring(label.length()).replace(":", ""), base), "answer altered");
        String code = members(text(a, "body")).getOrDefault("errCode", "");
        need(code.matches("[0-9]+"), "answer malformed");
        need(code.equals("0") && text(a, "status").equals("200"), "answer refusal");
        need(digests.group(2).equals(digest(text(a, "opened"))), "answer altered");
        Map<String, String> opened = members(text(a, "opened"));
        need(text(opened, "type").equals("2"), "answer malformed");
        need(same("", text(opened, "callBackId"), wanted.get("callBackId"))
            && DETAILS.stream().allMatch(name -> same(name, text(opened, name), wanted.get(name))), "answer differs");
    }

    static void check(Map<String, String> v) throws Exception {
        List<String> compared = new ArrayList<>(DETAILS);
        compared.add("claim");
        String merchant = text(v, "merchant"), merchantKey = text(v, "merchantKey");
        need(compared.stream().noneMatch(name -> text(v, name).isEmpty()) && (merchantKey.isEmpty() || !merchant.isEmpty()), "incomplete");
        Map<String, String> p = permit(text(v, "note"), text(v, "key"));
        need(compared.stream().allMatch(name -> same(name, p.get(name), text(v, name)))
            && (merchant.isEmpty() || merchant.equals(p.get("merchant"))), "differs");
        need(Long.parseLong(p.get("epoch")) >= Long.parseLong(text(v, "epoch")), "epoch");
        if (!merchantKey.isEmpty()) confirmed(text(v, "answer"), Base64.getDecoder().decode(merchantKey), p);
        need(p.get("duplicate").equals("false"), "duplicate");
    }

    public static void main(String[] none) throws Exception {
        for (String line : new String(System.in.readAllBytes(), StandardCharsets.UTF_8).split("\n")) {
            String why = "good";
            try {
                check(members(line));
            } catch (IllegalStateException e) {
                why = e.getMessage();
            } catch (Exception e) {
                why = "malformed";
            }
            System.out.println(why);
        }
    }
}
