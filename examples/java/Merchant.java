// A merchant's end of the custody callbacks for Java 17 or newer, without any
// library: java Merchant.java. Copy it and put your own ledger where it says CREDIT.
//
// The rule numbers (S5, M2, B3 ...) are those of PROTOCOL.md. Settings come from
// the environment; see README.md beside this folder.
//
// Accepted callbacks are recorded in STATE_FILE, one JSON text a line, and are on
// disk before the answer is sent. Without STATE_FILE they are kept in memory only,
// and a deposit that is sent again after a restart is credited again: use that
// only for trying out.

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.math.BigInteger;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.security.interfaces.RSAPublicKey;
import java.security.spec.X509EncodedKeySpec;
import java.util.*;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import java.util.stream.Stream;

public class Merchant {
    static final int MAX_BODY = 65_536; // bytes, H2
    static final String NOTIFY = "/callbacks/notify", WITHDRAW = "/callbacks/withdraw";
    static final long EXACT = (1L << 53) - 1; // M4
    static final SecureRandom RANDOM = new SecureRandom();

    static String env(String name, String otherwise) {
        String v = System.getenv(name);
        if (v == null || v.isEmpty()) v = otherwise;
        if (v == null) throw new IllegalStateException(name + " is not set");
        return v;
    }

    final RSAPublicKey key = readKey(env("KEY_FILE", null)); // what the service gave you: a secret (K5)
    final BigInteger n = key.getModulus(), e = key.getPublicExponent();
    final int k = (n.bitLength() + 7) / 8; // block size from the modulus, never a constant (K6)
    final String apiKey = env("API_KEY", null); // goes into every response (R1)
    final byte[] callbackKey = sha256(utf8(env("CALLBACK_API_KEY", null))); // must come in X-API-KEY (H2)
    static final boolean OTHER = env("PROVIDER", "countersign").equals("other"); // a service that may not bind and has other forms (P1)
    final Path orders = Path.of(env("ORDERS_FILE", null));

    Merchant() throws Exception {
        openState(System.getenv("STATE_FILE"));
    }

    static RSAPublicKey readKey(String file) throws Exception { // PEM, or the bare Base64 of the same bytes (K2)
        String text = Files.readString(Path.of(file)).replaceAll("-----[A-Z ]*-----", "");
        byte[] der = Base64.getMimeDecoder().decode(text);
        return (RSAPublicKey) KeyFactory.getInstance("RSA").generatePublic(new X509EncodedKeySpec(der));
    }

    // A refusal: an errCode of PROTOCOL.md, Error codes, and the HTTP status.
    static class Refusal extends Exception {
        final int code, status;

        Refusal(int code, String message, int status) {
            super(message);
            this.code = code;
            this.status = status;
        }
    }

    static Refusal cannotOpen(String why) { return new Refusal(1001, "the request cannot be opened: " + why, 400); }

    static Refusal malformed(String why) { return new Refusal(1002, "the request is malformed: " + why, 400); }

    // ---- Body forms (F1-F3) and Base64 (S4, S5)

    static byte[] sealedBytes(byte[] body) throws Refusal {
        String text = trim(new String(body, StandardCharsets.ISO_8859_1));
        if (text.startsWith("\"") || text.startsWith("{")) {
            Object v;
            try {
                v = new Json(text).document();
            } catch (Refusal r) {
                throw cannotOpen("no known body form");
            }
            if (v instanceof Map<?, ?> m) v = m.get("data");
            if (!(v instanceof String)) throw cannotOpen("no text in data");
            text = (String) v;
        } else if (text.startsWith("data=") || text.contains("&")) {
            List<String> fields = Arrays.stream(text.split("&")).filter(f -> f.startsWith("data=")).toList();
            if (fields.size() != 1) throw cannotOpen("a form has data once");
            try { // A + that was not written as %2B becomes a space here, and is refused below (F3).
                text = URLDecoder.decode(fields.get(0).substring(5), StandardCharsets.UTF_8);
            } catch (IllegalArgumentException x) {
                throw cannotOpen("no sound form");
            }
        }
        text = trim(text).replace("\r", "").replace("\n", "");
        try {
            byte[] raw = Base64.getDecoder().decode(text); // forgives missing padding and unused bits
            if (raw.length > 0 && Base64.getEncoder().encodeToString(raw).equals(text)) return raw;
        } catch (IllegalArgumentException x) { /* below */ }
        throw cannotOpen("not standard Base64");
    }

    static String trim(String s) { return s.replaceAll("^[ \t\r\n]+|[ \t\r\n]+$", ""); }

    // ---- Opening and sealing (S1-S5)

    byte[] openBlock(byte[] block) throws Refusal {
        BigInteger c = new BigInteger(1, block);
        if (c.compareTo(n) >= 0) throw cannotOpen("a block is out of range");
        byte[] b = toBlock(c.modPow(e, n));
        int i = 2;
        while (i < k && b[i] == (byte) 0xff) i++;
        if (b[0] != 0 || b[1] != 1 || i < 10 || i + 1 >= k || b[i] != 0) throw cannotOpen("a block is not of type 1");
        return Arrays.copyOfRange(b, i + 1, k);
    }

    byte[] toBlock(BigInteger v) {
        byte[] b = v.toByteArray(), out = new byte[k]; // b may have a sign byte in front, or be short
        int size = Math.min(b.length, k);
        System.arraycopy(b, b.length - size, out, k - size, size);
        return out;
    }

    String seal(Map<String, Object> answer) { // block type 2, the padding random and never 0
        byte[] plain = utf8(answer.containsKey("address") ? grouped(answer) : Json.write(answer));
        byte[] sealed = new byte[(plain.length + k - 12) / (k - 11) * k];
        for (int at = 0, to = 0; at < plain.length; at += k - 11, to += k) {
            int size = Math.min(k - 11, plain.length - at);
            byte[] block = new byte[k];
            block[1] = 2;
            for (int i = 2; i < k - size - 1; i++) block[i] = (byte) (1 + RANDOM.nextInt(255));
            System.arraycopy(plain, at, block, k - size, size);
            System.arraycopy(toBlock(new BigInteger(1, block).modPow(e, n)), 0, sealed, to, k);
        }
        return Base64.getEncoder().encodeToString(sealed);
    }

    // A service that was not given the details of a withdrawal confirms them only where
    // each lies in one block with callBackId or requestUUID. So they come in two groups,
    // and the second begins a block where it does not fit into the first (D7, R7).
    String grouped(Map<String, Object> answer) {
        String first = "{" + group(answer, "callBackId", "address") + ",";
        String second = group(answer, "chainName", "symbol", "amount", "requestUUID");
        int size = k - 11, room = size - utf8(first).length % size;
        return first + (utf8(second).length > room ? " ".repeat(room) : "") + second + "," + group(answer, "type", "tenantUserId") + "}";
    }

    static String group(Map<String, Object> answer, String... names) {
        String whole = Json.write(pick(answer, names));
        return whole.substring(1, whole.length() - 1);
    }

    // ---- Strict JSON (M1, M2). Numbers stay text in a Num: as a double, 2.0 would equal 2.

    record Num(String text) {}

    static class Json {
        static final Pattern NUMBER = Pattern.compile("-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?");
        final String s;
        int at;

        Json(String s) { this.s = s; }

        Refusal bad(String what) { return malformed(what + " at character " + at); }

        char peek() { return at < s.length() ? s.charAt(at) : '\0'; }

        void space() { while (at < s.length() && " \t\r\n".indexOf(s.charAt(at)) >= 0) at++; }

        Object document() throws Refusal {
            Object v = value(1);
            space();
            if (at != s.length()) throw bad("more behind the message");
            return v;
        }

        Object value(int depth) throws Refusal {
            space();
            char c = peek();
            if (c == '"') return string();
            if ((c == '{' || c == '[') && depth > 16) throw bad("nested too deeply");
            if (c == '{') {
                Map<String, Object> o = new LinkedHashMap<>();
                for (boolean more = open('}'); more; more = next('}')) {
                    space();
                    String name = string();
                    if (o.containsKey(name)) throw bad(name + " is there twice");
                    space();
                    if (peek() != ':') throw bad("no colon");
                    at++;
                    o.put(name, value(depth + 1));
                }
                return o;
            }
            if (c == '[') {
                List<Object> a = new ArrayList<>();
                for (boolean more = open(']'); more; more = next(']')) a.add(value(depth + 1));
                return a;
            }
            if (word("null")) return null;
            if (word("true")) return true;
            if (word("false")) return false;
            var m = NUMBER.matcher(s).region(at, s.length());
            if (!m.lookingAt()) throw bad("no value");
            at = m.end();
            return new Num(m.group());
        }

        boolean word(String w) {
            if (!s.startsWith(w, at)) return false;
            at += w.length();
            return true;
        }

        boolean open(char close) { // behind the bracket: is there a first member?
            at++;
            space();
            if (peek() != close) return true;
            at++;
            return false;
        }

        boolean next(char close) throws Refusal {
            space();
            char c = peek();
            at++;
            if (c != ',' && c != close) throw bad("no comma");
            return c == ',';
        }

        String string() throws Refusal {
            if (peek() != '"') throw bad("no string");
            StringBuilder b = new StringBuilder();
            for (at++; peek() != '"'; at++) {
                char c = peek();
                if (at >= s.length() || c < 0x20) throw bad("no end of a string");
                if (c != '\\') {
                    b.append(c);
                    continue;
                }
                at++;
                int i = "\"\\/bfnrt".indexOf(peek());
                if (at < s.length() && i >= 0) {
                    b.append("\"\\/\b\f\n\r\t".charAt(i));
                } else if (peek() == 'u' && at + 4 < s.length() && s.substring(at + 1, at + 5).matches("[0-9a-fA-F]{4}")) {
                    b.append((char) Integer.parseInt(s.substring(at + 1, at + 5), 16));
                    at += 4;
                } else {
                    throw bad("unknown escape");
                }
            }
            at++;
            // A surrogate without its partner is a code point of its own.
            if (b.codePoints().anyMatch(p -> p == 0 || p >= 0xd800 && p <= 0xdfff)) throw bad("U+0000 or half a character");
            return b.toString();
        }

        static String write(Object v) {
            if (v instanceof String t) {
                StringBuilder b = new StringBuilder("\"");
                for (char c : t.toCharArray()) {
                    if (c == '"' || c == '\\') b.append('\\').append(c);
                    else if (c < 0x20) b.append(String.format("\\u%04x", (int) c));
                    else b.append(c);
                }
                return b.append('"').toString();
            }
            if (v instanceof Map<?, ?> m) {
                StringJoiner j = new StringJoiner(",", "{", "}");
                m.forEach((name, x) -> j.add(write(name) + ":" + write(x)));
                return j.toString();
            }
            return v instanceof Num i ? i.text() : String.valueOf(v); // null, a number, a truth value
        }
    }

    // ---- Messages (M3-M5, A1): t text, e text that may be empty, n whole number,
    // a amount; ? may be absent or null, L may be if PROVIDER is other.

    static final String COMMON = "trackingId:t tenantUserId:t callBackId:t business:nL requestUUID:t";
    static final Map<Integer, String> MEMBERS = Map.of(
        1, "trackingId:t tenantUserId:t txId:t chainName:t symbol:t amount:a fromAddress:eL toAddress:t riskLevelFrom:nL riskLevelTo:nL "
            + "txIndex:nL newAddress:eL business:nL requestUUID:t",
        2, "trackingId:tL tenantUserId:tL callBackId:t business:nL requestUUID:t",
        3, COMMON + " txId:t chainName:tL symbol:tL amount:aL fromAddress:e? toAddress:tL newAddress:e?",
        4, "trackingId:e? tenantUserId:t chainName:tL symbol:tL toAddress:e? newAddress:t business:nL requestUUID:t",
        5, COMMON + " toAddress:e?",
        6, COMMON,
        7, COMMON);
    static final Map<String, long[]> RANGES = Map.of(
        "riskLevelFrom", new long[] {0, 100}, "riskLevelTo", new long[] {0, 100}, "txIndex", new long[] {-1, EXACT});

    static Map<String, Object> parseCallback(byte[] plain) throws Refusal {
        String text;
        try {
            text = StandardCharsets.UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT).decode(ByteBuffer.wrap(plain)).toString();
        } catch (CharacterCodingException x) {
            throw malformed("not UTF-8");
        }
        if (!(new Json(text).document() instanceof Map<?, ?> message)) throw malformed("not an object");
        Map<String, Object> o = pick(message, message.keySet().toArray(String[]::new));
        Map<String, Object> asSent = OTHER ? usualForms(o) : Map.of();
        long type = whole(o, "type");
        String rules = type < 1 || type > 7 ? null : MEMBERS.get((int) type);
        if (rules == null) throw new Refusal(1003, "the callback type is unknown", 200);
        Map<String, Object> m = new LinkedHashMap<>();
        Set<String> known = new TreeSet<>(String.CASE_INSENSITIVE_ORDER), exact = new HashSet<>(List.of("type"));
        m.put("type", type);
        for (String rule : rules.split(" ")) {
            String name = rule.substring(0, rule.indexOf(':')), kind = rule.substring(name.length() + 1);
            exact.add(name);
            Object v = o.get(name);
            if (v == null && kind.endsWith("?") || (v == null || v.equals("")) && kind.endsWith("L") && OTHER) continue;
            if (kind.startsWith("n")) {
                m.put(name, whole(o, name));
                continue;
            }
            if (!(v instanceof String t) || t.isEmpty() && !kind.startsWith("e")) throw malformed(name + " is missing or no text");
            if (kind.startsWith("a") && (!t.matches("(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?") || t.replace(".", "").length() > 78)) throw malformed("amount");
            m.put(name, t);
        }
        known.addAll(exact);
        for (String name : o.keySet()) { // M2: another case of a known name would be read by lax parsers
            if (!exact.contains(name) && known.contains(name)) throw malformed(name + " is in another case");
        }
        if (type == 1) m.putIfAbsent("txIndex", -1L);
        asSent = pick(asSent, exact.toArray(String[]::new));
        if (!asSent.isEmpty()) m.put("asSent", asSent);
        return m;
    }

    static final List<String> IDS = List.of("trackingId", "tenantUserId", "callBackId"), NO_EFFECT = List.of("riskLevelFrom", "riskLevelTo", "business");

    // M12: other forms of members become the interface's own where they say the same.
    // The result has them as they were sent.
    static Map<String, Object> usualForms(Map<String, Object> o) {
        Map<String, Object> asSent = new LinkedHashMap<>();
        o.replaceAll((name, v) -> {
            Object usual = v;
            if (IDS.contains(name)) {
                if (v instanceof Num n && n.text().matches("[0-9]+")) usual = n.text();
            } else if (name.equals("amount")) {
                if (v instanceof Num n) usual = plainAmount(n.text());
                if (v instanceof String t) usual = plainAmount(t);
            } else if (name.equals("type") || name.equals("txIndex") || NO_EFFECT.contains(name)) {
                if (v instanceof String t) usual = new Num(t);
                if (NO_EFFECT.contains(name) && !isWhole(name, usual)) usual = null;
            }
            if (!Objects.equals(usual, v)) asSent.put(name, Json.write(v));
            return usual;
        });
        return asSent;
    }

    static final Pattern EXPONENT = Pattern.compile("(0|[1-9][0-9]{0,77})(?:\\.([0-9]{1,78}))?[eE]([+-]?0*[0-9]{1,3})");

    // A4: an exponent moves the point. Nothing is computed, so nothing is lost.
    static String plainAmount(String text) {
        var found = EXPONENT.matcher(text);
        if (!found.matches()) return text;
        String fraction = found.group(2) == null ? "" : found.group(2);
        int shifted = found.group(1).length() + new BigInteger(found.group(3)).intValue(), point = Math.max(shifted, 1);
        String digits = "0".repeat(Math.max(1 - shifted, 0)) + found.group(1) + fraction;
        digits += "0".repeat(Math.max(point - digits.length(), 0));
        String whole = digits.substring(0, point).replaceFirst("^0+(?=.)", "");
        fraction = digits.substring(point);
        if (whole.length() + fraction.length() > 78) fraction = fraction.replaceFirst("0+$", "");
        return fraction.isEmpty() ? whole : whole + "." + fraction;
    }

    static long whole(Map<?, ?> o, String name) throws Refusal {
        if (!isWhole(name, o.get(name))) throw malformed(name + " is not a whole number in its range");
        return Long.parseLong(((Num) o.get(name)).text());
    }

    static boolean isWhole(String name, Object v) { // M4: no fraction, no exponent, exact
        long[] range = RANGES.getOrDefault(name, new long[] {-EXACT, EXACT});
        if (!(v instanceof Num n) || !n.text().matches("0|-?[1-9][0-9]{0,15}")) return false;
        long value = Long.parseLong(n.text());
        return range[0] <= value && value <= range[1];
    }

    // ---- Binding (B1-B5)

    static final Pattern VERSION_8 = Pattern.compile("[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");

    void checkBinding(byte[] plain, String uuid, byte[][] blocks) throws Exception {
        // As Latin-1 every byte is one character, so positions are those of the bytes.
        String latin = new String(plain, StandardCharsets.ISO_8859_1);
        boolean version8 = VERSION_8.matcher(uuid).matches();
        if (!OTHER || version8) {
            int at = latin.indexOf(uuid); // it cannot be anywhere else in a message that it was made from
            Refusal notBound = new Refusal(1002, "the request is not bound", 200);
            if (!version8 || at < 0 || latin.indexOf(uuid, at + 1) >= 0) throw notBound;
            byte[] unbound = plain.clone(), made = new BigInteger("1" + uuid.replace("-", ""), 16).toByteArray(); // the 1 keeps leading zeros
            Arrays.fill(unbound, at, at + 36, (byte) '0');
            MessageDigest d = MessageDigest.getInstance("SHA-256");
            d.update(utf8("countersign request binding 1\n"));
            d.update(made, 1, 6);
            byte[] h = d.digest(unbound);
            h[0] = (byte) (0x80 | h[0] & 0x0f);
            h[2] = (byte) (0x80 | h[2] & 0x3f);
            if (!Arrays.equals(h, 0, 10, made, 7, 17)) throw notBound;
            return;
        }
        // B5: a block that holds the requestUUID comes in one request alone.
        String body = hex(sha256(concat(blocks)));
        List<String> own = new ArrayList<>();
        for (byte[] block : blocks) {
            if (holds(new String(openBlock(block), StandardCharsets.ISO_8859_1), uuid)) own.add(hex(sha256(block)));
        }
        synchronized (this) {
            for (String block : own) {
                if (!seen.getOrDefault(block, body).equals(body)) throw new Refusal(1002, "the request repeats blocks of another one", 200);
            }
            for (String block : own) {
                if (!seen.containsKey(block)) remember(Map.of("block", block, "body", body));
            }
        }
    }

    static final Pattern VERSION_4 = Pattern.compile("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}");

    /** Whether a block holds all of a requestUUID, or half of a random one or more. */
    static boolean holds(String text, String uuid) {
        if (text.contains(uuid)) return true;
        for (int n = uuid.length() / 2; n < uuid.length() && VERSION_4.matcher(uuid).matches(); n++) {
            if (text.endsWith(uuid.substring(0, n)) || text.startsWith(uuid.substring(uuid.length() - n))) return true;
        }
        return false;
    }

    // ---- Accepted callbacks (I1-I3). "synchronized": one callback at a time.

    final Map<String, String> taken = new HashMap<>();
    final Map<String, List<Map<?, ?>>> transfers = new HashMap<>();
    final Map<String, Map<?, ?>> confirmed = new HashMap<>();
    final Map<String, String> seen = new HashMap<>();
    final Set<Object> ended = new HashSet<>();
    FileChannel state;

    void openState(String file) throws Exception {
        if (file == null || file.isEmpty()) return;
        Path path = Path.of(file);
        Set<PosixFilePermission> own = PosixFilePermissions.fromString("rw-------");
        state = FileChannel.open(path, Set.of(StandardOpenOption.CREATE, StandardOpenOption.WRITE), PosixFilePermissions.asFileAttribute(own));
        Files.setPosixFilePermissions(path, own); // also where others could read it before
        byte[] data = Files.readAllBytes(path);
        int end = data.length;
        while (end > 0 && data[end - 1] != '\n') end--;
        state.truncate(end); // half a line was never answered for, so it comes again
        for (String line : new String(data, 0, end, StandardCharsets.UTF_8).split("\n")) {
            if (!line.isEmpty()) apply((Map<?, ?>) new Json(line).document());
        }
        state.position(end);
    }

    // Writes to the disk first, so that memory never holds more than the disk.
    synchronized void remember(Map<String, Object> record) {
        if (state != null) {
            try {
                ByteBuffer line = ByteBuffer.wrap(utf8(Json.write(record) + "\n"));
                if (state.write(line) < line.limit()) throw new IOException("written in part");
                state.force(true);
            } catch (IOException x) {
                System.err.println("the state cannot be kept: " + x.getMessage());
                Runtime.getRuntime().halt(1); // whoever cannot keep may not answer; the service tries again
            }
        }
        apply(record);
    }

    void apply(Map<?, ?> r) {
        if (r.containsKey("block")) seen.put((String) r.get("block"), (String) r.get("body"));
        if (r.containsKey("confirmed")) confirmed.put((String) r.get("confirmed"), r);
        if (!r.containsKey("taken")) return;
        Map<?, ?> m = (Map<?, ?>) r.get("callback");
        taken.put((String) r.get("taken"), contentOf(m));
        if (number(m.get("type")) == 3 || number(m.get("type")) == 5) ended.add(m.get("callBackId"));
        if (number(m.get("type")) == 1) transfers.computeIfAbsent(transferOf(m), t -> new ArrayList<>()).add(m);
    }

    static long number(Object v) { return v instanceof Num n ? Long.parseLong(n.text()) : (Long) v; } // as read from the file, or as parsed

    static String evm(Object address) { // D2
        String a = address == null ? "" : (String) address;
        return a.matches("0x[0-9a-fA-F]{40}") ? a.toLowerCase(Locale.ROOT) : a;
    }

    // What the effect of a callback rests on. Amounts count by value (A2).
    static String contentOf(Map<?, ?> m) {
        long type = number(m.get("type"));
        List<Object> content = new ArrayList<>();
        for (String name : List.of("tenantUserId", "callBackId", "txId", "chainName", "symbol")) content.add(m.get(name));
        content.add(plain(m));
        content.add(type == 5 ? "" : evm(m.get("toAddress")));
        content.add(type == 4 ? evm(m.get("newAddress")) : "");
        return content.stream().map(Json::write).toList().toString();
    }

    static Object plain(Map<?, ?> m) { // the shortest form of the amount (A2)
        return m.get("amount") instanceof String a && a.contains(".") ? a.replaceAll("\\.?0+$", "") : m.get("amount");
    }

    static boolean mayBeSame(Map<?, ?> m, Map<?, ?> other) { // of one transferOf (I2)
        long i = number(m.get("txIndex")), j = number(other.get("txIndex"));
        return plain(m).equals(plain(other)) || i == j || i < 0 || j < 0;
    }

    // What moved to where, without regard to spelling (I3).
    static String transferOf(Map<?, ?> m) {
        return Stream.of("chainName", "txId", "symbol", "toAddress").map(name -> {
            String folded = ((String) m.get(name)).replaceAll("[^!-~]", "").toLowerCase(Locale.ROOT);
            return Json.write(name.endsWith("Id") || name.endsWith("Address") ? folded.replaceFirst("^0x", "") : folded);
        }).toList().toString();
    }

    synchronized void take(Map<String, Object> m) throws Refusal {
        Object id = m.get("trackingId");
        String name = m.get("type") + " " + Json.write(id == null || id.equals("") ? m.get("requestUUID") : id) + Json.write(m.get("callBackId"));
        String before = taken.get(name);
        if (contentOf(m).equals(before)) return; // I1: told before; answered again, done once
        if (before != null) {
            System.err.println("ALARM: known with other content: " + Json.write(name));
            throw new Refusal(2002, "the identifier is known with other content", 200);
        }
        Map<String, Object> record = new LinkedHashMap<>();
        record.put("taken", name);
        record.put("callback", m);
        if (m.get("type").equals(1L)) {
            // I2: a possible duplicate. It is recorded, but credited only after a person has decided.
            record.put("possibleDuplicate", transfers.getOrDefault(transferOf(m), List.of()).stream().anyMatch(other -> mayBeSame(m, other)));
        }
        // CREDIT: this line is the effect. With a database, insert the trackingId into
        // a unique column and credit tenantUserId in the same transaction, unless the
        // deposit is a possible duplicate. Types 3 to 7 are notices: M8, M9.
        remember(record);
    }

    // ---- Answers (R2-R5)

    static Map<String, Object> pick(Map<?, ?> m, String... names) {
        Map<String, Object> out = new LinkedHashMap<>();
        for (String name : names) if (m.containsKey(name)) out.put(name, m.get(name));
        return out;
    }

    Map<String, Object> answerTo(Map<String, Object> m) throws Exception {
        long type = (Long) m.get("type");
        Map<String, Object> a;
        if (type == 1) {
            take(m);
            a = pick(m, "type", "trackingId", "txId", "txIndex", "chainName", "symbol", "amount", "fromAddress", "toAddress", "tenantUserId");
            for (String name : List.of("callBackId", "state", "tenantType")) a.put(name, null);
        } else if (type == 2) {
            a = pick(m, "type", "tenantUserId", "callBackId");
            detailsOf(m).forEach((name, v) -> a.put((String) name, v));
        } else {
            take(m);
            a = pick(m, "type", "trackingId", "tenantUserId", "callBackId", "txId", "chainName", "symbol", "amount", "fromAddress", "toAddress");
            if (type == 4) a.put("toAddress", m.get("newAddress")); // M8
        }
        a.put("requestUUID", m.get("requestUUID"));
        return a;
    }

    // A withdrawal is confirmed from your own order book. The request gives only the
    // two identifiers. A confirmation is repeated for every later request (D4), until the
    // withdrawal has ended or you mark its order as cancelled (I1). Other services name no user, and then callBackId alone finds the order.
    synchronized Map<?, ?> detailsOf(Map<String, Object> m) throws Exception {
        String id = (String) m.get("callBackId");
        for (Object o : (List<?>) new Json(Files.readString(orders)).document()) {
            Map<?, ?> order = (Map<?, ?>) o;
            if (!order.get("callBackId").equals(id)) continue;
            if (m.containsKey("tenantUserId") && !m.get("tenantUserId").equals(order.get("tenantUserId"))) throw new Refusal(2002, "the order is of another user", 200);
            if (Boolean.TRUE.equals(order.get("cancelled")) || ended.contains(id)) {
                System.err.println("ALARM: asked about an order that has ended: " + Json.write(id));
                throw new Refusal(2005, "the order has ended", 200);
            }
            Map<String, Object> record = new LinkedHashMap<>();
            record.put("confirmed", id);
            record.put("trackingId", m.get("trackingId"));
            record.put("details", pick(order, "tenantUserId", "address", "chainName", "symbol", "amount"));
            if (!confirmed.containsKey(id)) remember(record);
            Map<?, ?> kept = confirmed.get(id);
            // I1: one order pays one withdrawal. Files of earlier versions lack the trackingId.
            if (kept.containsKey("trackingId") && !Objects.equals(kept.get("trackingId"), m.get("trackingId"))) throw new Refusal(2002, "the order is of another withdrawal", 200);
            return (Map<?, ?>) kept.get("details");
        }
        throw new Refusal(2001, "the order is unknown", 200);
    }

    // ---- HTTP (H2)

    String handle(String path, byte[] body) throws Exception {
        byte[] raw = sealedBytes(body);
        if (raw.length % k != 0) throw cannotOpen("not a whole number of blocks");
        byte[][] blocks = new byte[raw.length / k][], opened = new byte[raw.length / k][];
        for (int i = 0; i < blocks.length; i++) {
            blocks[i] = Arrays.copyOfRange(raw, i * k, i * k + k);
            opened[i] = openBlock(blocks[i]);
        }
        byte[] plain = concat(opened);
        Map<String, Object> m = parseCallback(plain);
        if (m.get("type").equals(2L) != path.equals(WITHDRAW)) throw new Refusal(1004, "the callback type does not belong to this URL", 200);
        checkBinding(plain, (String) m.get("requestUUID"), blocks);
        Map<String, Object> answer = answerTo(m);
        if (m.get("asSent") instanceof Map<?, ?> asSent) { // what came in another form goes back in that form (M12)
            answer.replaceAll((name, v) -> asSent.containsKey(name) ? new Num((String) asSent.get(name)) : v);
        }
        return seal(answer);
    }

    final long bodyTimeout = Long.parseLong(env("BODY_TIMEOUT_MS", "10000"));
    final ScheduledExecutorService clock = Executors.newScheduledThreadPool(1);

    // Bounded in size and in time, before any RSA. The server itself has no time-out,
    // but an interrupt closes its connection.
    byte[] readBody(HttpExchange x) throws IOException {
        AtomicBoolean over = new AtomicBoolean();
        Thread reader = Thread.currentThread();
        Future<?> alarm = clock.schedule(() -> {
            if (over.compareAndSet(false, true)) reader.interrupt();
        }, bodyTimeout, TimeUnit.MILLISECONDS);
        try {
            return x.getRequestBody().readNBytes(MAX_BODY + 1);
        } finally {
            if (over.compareAndSet(false, true)) alarm.cancel(false);
            else while (!Thread.interrupted()) Thread.onSpinWait(); // it must not hit what this thread does next
        }
    }

    void serve(HttpExchange x) throws IOException {
        try (x) {
            byte[] body = readBody(x);
            String path = x.getRequestURI().getPath(), given = x.getRequestHeaders().getFirst("X-API-KEY");
            int status = 200;
            if (!path.equals(NOTIFY) && !path.equals(WITHDRAW)) status = 404;
            else if (!x.getRequestMethod().equals("POST")) status = 405;
            // Digests have the same length, so the comparison always takes the same time.
            else if (!MessageDigest.isEqual(sha256(utf8(given == null ? "" : given)), callbackKey)) status = 401;
            else if (body.length > MAX_BODY) status = 413;
            if (status != 200) {
                x.sendResponseHeaders(status, -1);
                return;
            }
            Map<String, Object> response = new LinkedHashMap<>();
            response.put("apiKey", apiKey);
            try {
                response.put("data", handle(path, body));
                response.put("errCode", 0);
                response.put("message", "");
            } catch (Refusal r) {
                status = r.status;
                response.putAll(Map.of("data", "", "errCode", r.code, "message", r.getMessage()));
            } catch (Exception t) { // the log gets the cause, the peer a fixed word
                t.printStackTrace();
                response.putAll(Map.of("data", "", "errCode", 5000, "message", "internal error"));
            }
            byte[] out = utf8(Json.write(response));
            x.getResponseHeaders().set("Content-Type", "application/json");
            x.sendResponseHeaders(status, out.length);
            x.getResponseBody().write(out);
        }
    }

    static byte[] utf8(String s) { return s.getBytes(StandardCharsets.UTF_8); }

    static byte[] sha256(byte[] b) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(b);
        } catch (java.security.NoSuchAlgorithmException x) {
            throw new IllegalStateException(x);
        }
    }

    static String hex(byte[] b) { return HexFormat.of().formatHex(b); }

    static byte[] concat(byte[][] parts) {
        byte[] out = new byte[Arrays.stream(parts).mapToInt(p -> p.length).sum()];
        int at = 0;
        for (byte[] p : parts) {
            System.arraycopy(p, 0, out, at, p.length);
            at += p.length;
        }
        return out;
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("sun.net.httpserver.nodelay", "true"); // else answers wait 40 ms for nothing
        // Headers that do not end must not hold a connection either: whole seconds for them and the body together.
        System.setProperty("sun.net.httpserver.maxReqTime", String.valueOf((2 * Long.parseLong(env("BODY_TIMEOUT_MS", "10000")) + 999) / 1000));
        Merchant merchant = new Merchant();
        String listen = env("LISTEN", "127.0.0.1:8090");
        int colon = listen.lastIndexOf(':');
        String host = listen.substring(0, colon);
        HttpServer server = HttpServer.create(new InetSocketAddress(host, Integer.parseInt(listen.substring(colon + 1))), 128);
        server.createContext("/", merchant::serve);
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
        System.out.println("listening on http://" + host + ":" + server.getAddress().getPort());
    }
}
