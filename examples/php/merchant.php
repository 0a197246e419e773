<?php
// A merchant's end of the custody callbacks for PHP 8.1 or newer, with no more than
// php-cli brings (its openssl). Copy it and put your own ledger where it says CREDIT.
//
// The rule numbers (S5, M2, B3 ...) are those of PROTOCOL.md. Settings come from the
// environment; see README.md beside this folder.
//
// Accepted callbacks are recorded in STATE_FILE, one JSON text a line, and are on disk
// before the answer is sent. Without STATE_FILE they are kept in memory only, and a
// deposit that is sent again after a restart is credited again: use that only for
// trying out.

declare(strict_types=1);

const MAX_BODY = 65_536; // bytes, H2
const NOTIFY = '/callbacks/notify', WITHDRAW = '/callbacks/withdraw';
const EXACT = 2 ** 53 - 1; // M4
const WHITE = " \t\r\n";

ini_set('display_errors', 'stderr');
set_error_handler(function (int $level, string $what, string $file, int $line): bool {
    if (!(error_reporting() & $level)) {
        return false; // called with @
    }
    throw new ErrorException($what, 0, $level, $file, $line); // a warning is no answer either
});

/** A refusal: an errCode of PROTOCOL.md, Error codes, and the HTTP status. */
final class Refusal extends Exception
{
    public function __construct(public readonly int $errCode, string $message, public readonly int $status = 200)
    {
        parent::__construct($message);
    }
}

function cannotOpen(string $why): Refusal
{
    return new Refusal(1001, "the request cannot be opened: $why", 400);
}

function malformed(string $why): Refusal
{
    return new Refusal(1002, "the request is malformed: $why", 400);
}

function setting(string $name, ?string $default = null): string
{
    $value = getenv($name);
    return $value !== false && $value !== '' ? $value : $default ?? throw new Exception("$name is not set");
}

define('API_KEY', setting('API_KEY')); // goes into every response (R1)
define('CALLBACK_API_KEY', setting('CALLBACK_API_KEY')); // must come in X-API-KEY (H2)
define('OTHER', setting('PROVIDER', 'countersign') === 'other'); // a service that may not bind and has other forms (P1)
define('BODY_TIMEOUT', (float) setting('BODY_TIMEOUT_MS', '10000') / 1000);
define('ORDERS_FILE', setting('ORDERS_FILE'));

// ---- The key, as PEM or as the bare Base64 of the same bytes (K2)

function readKey(string $file): OpenSSLAsymmetricKey
{
    $text = trim(file_get_contents($file));
    if (!str_starts_with($text, '-----')) {
        $text = "-----BEGIN PUBLIC KEY-----\n" . chunk_split($text, 64, "\n") . "-----END PUBLIC KEY-----\n";
    }
    $key = openssl_pkey_get_public($text);
    if (!$key || openssl_pkey_get_details($key)['type'] !== OPENSSL_KEYTYPE_RSA) {
        throw new Exception("$file holds no RSA public key");
    }
    return $key;
}

define('KEY', readKey(setting('KEY_FILE'))); // what the service gave you: a secret (K5)
define('K', intdiv(openssl_pkey_get_details(KEY)['bits'] + 7, 8)); // block size from the modulus, never a constant (K6)

// ---- Body forms (F1-F3) and Base64 (S4, S5)

function sealedBytes(string $body): string
{
    $text = trim($body, WHITE);
    if (str_starts_with($text, '"') || str_starts_with($text, '{')) {
        try {
            $text = Json::parse($text);
        } catch (Refusal) {
            throw cannotOpen('no known body form');
        }
        $text = $text instanceof stdClass ? $text->data ?? null : $text;
        if (!is_string($text)) {
            throw cannotOpen('no text in data');
        }
    } elseif (str_starts_with($text, 'data=') || str_contains($text, '&')) {
        $fields = array_filter(explode('&', $text), fn($field) => str_starts_with($field, 'data='));
        if (count($fields) !== 1) {
            throw cannotOpen('a form has data once');
        }
        $text = urldecode(substr(reset($fields), 5)); // a + becomes a space here, which is refused below (F3)
    }
    $text = str_replace(["\r", "\n"], '', trim($text, WHITE));
    $raw = base64_decode($text, true); // forgives some faults, so compare with its inverse
    if ($raw === false || $raw === '' || base64_encode($raw) !== $text) {
        throw cannotOpen('not standard Base64');
    }
    return $raw;
}

// ---- Opening and sealing (S1-S5)

/** @return string[] */
function blocksOf(string $raw): array
{
    if (strlen($raw) % K !== 0) {
        throw cannotOpen('not a whole number of blocks');
    }
    return str_split($raw, K);
}

function openBlock(string $block): string
{
    if (!openssl_public_decrypt($block, $b, KEY, OPENSSL_NO_PADDING)) { // refuses what is not below the modulus
        throw cannotOpen('a block is out of range');
    }
    if (!preg_match('/\A\x00\x01\xff{8,}\x00(?=.)/s', $b, $padding)) {
        throw cannotOpen('a block is not of type 1');
    }
    return substr($b, strlen($padding[0]));
}

/** Block type 2, each chunk at most k - 11 bytes. */
function seal(array $answer): string
{
    $sealed = '';
    foreach (str_split(isset($answer['address']) ? grouped($answer) : write($answer), K - 11) as $chunk) {
        if (!openssl_public_encrypt($chunk, $block, KEY, OPENSSL_PKCS1_PADDING)) {
            throw new Exception('an answer cannot be sealed');
        }
        $sealed .= $block;
    }
    return base64_encode($sealed);
}

function write(array $answer): string
{
    return '{' . implode(',', array_map(fn($name) => "\"$name\":" . json($answer[$name]), array_keys($answer))) . '}';
}

function json(mixed $value): string
{
    return $value instanceof Num ? $value->text : json_encode($value, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_THROW_ON_ERROR);
}

/**
 * A service that was not given the details of a withdrawal confirms them only where each lies in one
 * block with callBackId or requestUUID. So they come in two groups, and the second begins a block where
 * it does not fit into the first (D7, R7).
 */
function grouped(array $answer): string
{
    $group = fn(string ...$names) => substr(write(pick($answer, ...$names)), 1, -1);
    [$first, $second] = ['{' . $group('callBackId', 'address') . ',', $group('chainName', 'symbol', 'amount', 'requestUUID')];
    $room = K - 11 - strlen($first) % (K - 11);
    return $first . str_repeat(' ', strlen($second) > $room ? $room : 0) . $second . ',' . $group('type', 'tenantUserId') . '}';
}

// ---- Strict JSON (M1, M2). json_decode takes the last of two equal members and makes
// floats of numbers. Here a number stays as it was written, and an object is a stdClass.

final class Num
{
    public function __construct(public readonly string $text)
    {
    }
}

final class Json
{
    private const STRING = '"(?:[^"\\\\\x00-\x1f]++|\\\\(?:["\\\\\/bfnrt]|u[0-9a-fA-F]{4}))*+"';
    private const NUMBER = '-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+';
    private int $at = 0;

    private function __construct(private readonly string $text)
    {
    }

    public static function parse(string $text): mixed
    {
        $p = new self($text);
        $value = $p->value(1);
        if ($p->next() !== '') {
            throw malformed('more behind the message');
        }
        return $value;
    }

    /** The next character that is no white space, '' at the end. */
    private function next(): string
    {
        $this->at += strspn($this->text, WHITE, $this->at);
        return substr($this->text, $this->at, 1);
    }

    private function token(string $pattern): string
    {
        $this->next();
        if (!preg_match("/\\G(?:$pattern)/", $this->text, $found, 0, $this->at)) {
            throw malformed("unexpected text at byte $this->at");
        }
        $this->at += strlen($found[0]);
        return $found[0];
    }

    private function string(): string
    {
        $s = json_decode($this->token(self::STRING)); // null for half a character and for what is not UTF-8
        if ($s === null || str_contains($s, "\0")) {
            throw malformed('not UTF-8, U+0000 or half a character');
        }
        return $s;
    }

    private function value(int $depth): mixed
    {
        $first = $this->next();
        if ($first === '"') {
            return $this->string();
        }
        if ($first !== '{' && $first !== '[') {
            $word = $this->token('true|false|null|' . self::NUMBER);
            return match ($word) { 'true' => true, 'false' => false, 'null' => null, default => new Num($word) };
        }
        if ($depth > 16) {
            throw malformed('nested too deeply');
        }
        [$value, $end] = $first === '{' ? [new stdClass(), '}'] : [[], ']'];
        $this->at++;
        if ($this->next() === $end) {
            $this->at++;
            return $value;
        }
        do {
            if ($first === '[') {
                $value[] = $this->value($depth + 1);
                continue;
            }
            $name = $this->string();
            if (property_exists($value, $name)) {
                throw malformed("$name is there twice");
            }
            $this->token(':');
            $value->{$name} = $this->value($depth + 1);
        } while ($this->token(",|\\$end") === ',');
        return $value;
    }
}

// ---- Messages (M3-M5, A1): t text, e text that may be empty, n whole number,
// a amount; ? may be absent or null, L may be if PROVIDER is other.

const WITHDRAWAL = ['trackingId' => 't', 'tenantUserId' => 't', 'callBackId' => 't', 'business' => 'nL', 'requestUUID' => 't'];
const MEMBERS = [
    1 => ['trackingId' => 't', 'tenantUserId' => 't', 'txId' => 't', 'chainName' => 't', 'symbol' => 't', 'amount' => 'a',
        'fromAddress' => 'eL', 'toAddress' => 't', 'riskLevelFrom' => 'nL', 'riskLevelTo' => 'nL', 'txIndex' => 'nL', 'newAddress' => 'eL',
        'business' => 'nL', 'requestUUID' => 't'],
    2 => [...WITHDRAWAL, 'trackingId' => 'tL', 'tenantUserId' => 'tL'],
    3 => [...WITHDRAWAL, 'txId' => 't', 'chainName' => 'tL', 'symbol' => 'tL', 'amount' => 'aL', 'fromAddress' => 'e?', 'toAddress' => 'tL',
        'newAddress' => 'e?'],
    4 => ['trackingId' => 'e?', 'tenantUserId' => 't', 'chainName' => 'tL', 'symbol' => 'tL', 'toAddress' => 'e?', 'newAddress' => 't',
        'business' => 'nL', 'requestUUID' => 't'],
    5 => [...WITHDRAWAL, 'toAddress' => 'e?'],
    6 => WITHDRAWAL,
    7 => WITHDRAWAL,
];
const RANGES = ['riskLevelFrom' => [0, 100], 'riskLevelTo' => [0, 100], 'txIndex' => [-1, EXACT]];

function parseCallback(string $plain): array
{
    $o = Json::parse($plain);
    if (!$o instanceof stdClass) {
        throw malformed('not an object');
    }
    $asSent = OTHER ? usualForms($o) : [];
    $type = whole($o, 'type');
    $known = MEMBERS[$type] ?? throw new Refusal(1003, 'the callback type is unknown');
    $m = ['type' => $type];
    foreach ($known as $name => $kind) {
        $v = $o->{$name} ?? null;
        if ($v === null && $kind[-1] === '?' || ($v === null || $v === '') && $kind[-1] === 'L' && OTHER) {
            continue;
        }
        if ($kind[0] === 'n') {
            $m[$name] = whole($o, $name);
            continue;
        }
        if (!is_string($v) || $v === '' && $kind[0] !== 'e') {
            throw malformed("$name is missing or no text");
        }
        if ($kind[0] === 'a' && (!preg_match('/\A(?:0|[1-9][0-9]*)(?:\.[0-9]+)?\z/', $v) || strlen(str_replace('.', '', $v)) > 78)) {
            throw malformed('amount');
        }
        $m[$name] = $v;
    }
    $names = ['type', ...array_keys($known)];
    foreach (array_diff(array_keys(get_object_vars($o)), $names) as $name) {
        // M2: another case of a known name would be read by lax parsers. With u, K is also a case of k.
        if (preg_match('/\A(?:' . implode('|', $names) . ')\z/iu', (string) $name)) {
            throw malformed("$name is in another case");
        }
    }
    if ($type === 1) {
        $m += ['txIndex' => -1];
    }
    $asSent = pick($asSent, 'type', ...array_keys($known));
    return $asSent ? [...$m, 'asSent' => $asSent] : $m;
}

const IDS = ['trackingId', 'tenantUserId', 'callBackId'], NO_EFFECT = ['riskLevelFrom', 'riskLevelTo', 'business'];

/** M12: other forms of members become the interface's own where they say the same. The result has them as they were sent. */
function usualForms(stdClass $o): array
{
    $asSent = [];
    foreach (array_intersect(array_keys(get_object_vars($o)), ['type', 'txIndex', 'amount', ...IDS, ...NO_EFFECT]) as $name) {
        $v = $usual = $o->{$name};
        $text = $v instanceof Num ? $v->text : $v;
        if (in_array($name, IDS, true)) {
            $usual = $v instanceof Num && ctype_digit($text) ? $text : $v;
        } elseif ($name === 'amount') {
            $usual = is_string($text) ? plainAmount($text) : $v;
        } else {
            $usual = is_string($v) ? new Num($v) : $v;
            $usual = in_array($name, NO_EFFECT, true) && !isWhole($name, $usual) ? null : $usual;
        }
        if ($usual !== $v) {
            [$o->{$name}, $asSent[$name]] = [$usual, json($v)];
        }
    }
    return $asSent;
}

/** A4: an exponent moves the point. Nothing is computed, so nothing is lost. */
function plainAmount(string $text): string
{
    if (!preg_match('/\A(0|[1-9][0-9]{0,77})(?:\.([0-9]{1,78}))?[eE]([+-]?0*[0-9]{1,3})\z/', $text, $found)) {
        return $text;
    }
    [, $whole, $fraction, $exponent] = $found;
    $point = strlen($whole) + (int) $exponent;
    $digits = str_repeat('0', max(0, 1 - $point)) . $whole . $fraction;
    $point = max($point, 1);
    $whole = ltrim(str_pad(substr($digits, 0, $point), $point, '0'), '0');
    [$whole, $fraction] = [$whole === '' ? '0' : $whole, substr($digits, $point)];
    if (strlen($whole . $fraction) > 78) {
        $fraction = rtrim($fraction, '0');
    }
    return $fraction === '' ? $whole : "$whole.$fraction";
}

function whole(stdClass $o, string $name): int
{
    $v = $o->{$name} ?? null;
    return isWhole($name, $v) ? (int) $v->text : throw malformed("$name is not a whole number in its range");
}

/** M4: no fraction, no exponent, exact. */
function isWhole(string $name, mixed $v): bool
{
    [$low, $high] = RANGES[$name] ?? [-EXACT, EXACT];
    return $v instanceof Num && preg_match('/\A(?:0|-?[1-9][0-9]{0,15})\z/', $v->text) && (int) $v->text >= $low && (int) $v->text <= $high;
}

// ---- Binding (B1-B5)

function checkBinding(State $state, string $plain, string $uuid, array $blocks): void
{
    $version8 = preg_match('/\A[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\z/', $uuid);
    if (!OTHER || $version8) {
        // A message cannot hold the UUID a second time, because the UUID was made from it.
        if (!$version8 || substr_count($plain, $uuid) !== 1) {
            throw new Refusal(1002, 'the request is not bound');
        }
        $unbound = str_replace($uuid, str_repeat('0', 36), $plain);
        $made = hex2bin(str_replace('-', '', $uuid));
        $h = hash('sha256', "countersign request binding 1\n" . substr($made, 0, 6) . $unbound, true);
        $h[0] = chr(0x80 | ord($h[0]) & 0x0f);
        $h[2] = chr(0x80 | ord($h[2]) & 0x3f);
        if (substr($h, 0, 10) !== substr($made, 6)) {
            throw new Refusal(1002, 'the request is not bound');
        }
        return;
    }
    // B5: a block that holds the requestUUID comes in one request alone.
    $body = hash('sha256', implode($blocks));
    $own = [];
    foreach ($blocks as $block) {
        if (holds(openBlock($block), $uuid)) {
            $own[] = hash('sha256', $block);
        }
    }
    foreach ($own as $block) {
        if (($state->blocks[$block] ?? $body) !== $body) {
            throw new Refusal(1002, 'the request repeats blocks of another one');
        }
    }
    foreach ($own as $block) {
        if (!isset($state->blocks[$block])) {
            $state->remember(['block' => $block, 'body' => $body]);
        }
    }
}

/** Whether a block holds all of a requestUUID, or half of a random one or more. */
function holds(string $text, string $uuid): bool
{
    if (str_contains($text, $uuid)) {
        return true;
    }
    if (!preg_match('/\A[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}\z/i', $uuid)) {
        return false;
    }
    for ($n = intdiv(strlen($uuid), 2); $n < strlen($uuid); $n++) {
        if (str_ends_with($text, substr($uuid, 0, $n)) || str_starts_with($text, substr($uuid, -$n))) {
            return true;
        }
    }
    return false;
}

// ---- Accepted callbacks (I1-I3). The process does one callback at a time.

final class State
{
    public array $taken = [], $transfers = [], $confirmed = [], $ended = [], $blocks = [];
    private $file = null;

    public function __construct(string $name)
    {
        if ($name === '') {
            return;
        }
        umask(0077);
        $this->file = fopen($name, 'a+b');
        chmod($name, 0600); // also where others could read it before
        $data = stream_get_contents($this->file, null, 0);
        $end = (int) strrpos("\n$data", "\n");
        ftruncate($this->file, $end); // half a line was never answered for, so it comes again
        foreach (explode("\n", substr($data, 0, $end), -1) as $line) {
            $this->apply(json_decode($line, true, 512, JSON_THROW_ON_ERROR));
        }
    }

    /** Writes to the disk first, so that memory never holds more than the disk. */
    public function remember(array $record): void
    {
        if ($this->file) {
            $line = json($record) . "\n";
            // A disk that becomes full takes a part and reports no error.
            if (@fwrite($this->file, $line) !== strlen($line) || !@fsync($this->file)) {
                error_log("the state cannot be kept");
                exit(1); // whoever cannot keep may not answer; the service tries again
            }
        }
        $this->apply($record);
    }

    private function apply(array $r): void
    {
        if (isset($r['block'])) {
            $this->blocks[$r['block']] = $r['body'];
        }
        if (isset($r['confirmed'])) {
            $this->confirmed[$r['confirmed']] = $r;
        }
        if (isset($r['taken'])) {
            $this->taken[$r['taken']] = contentOf($r['callback']);
            if (in_array($r['callback']['type'], [3, 5], true)) {
                $this->ended[$r['callback']['callBackId'] ?? ''] = true;
            }
            if ($r['callback']['type'] === 1) {
                $this->transfers[transferOf($r['callback'])][] = $r['callback'];
            }
        }
    }
}

function evm(string $address): string // D2
{
    return preg_match('/\A0x[0-9a-fA-F]{40}\z/', $address) ? strtolower($address) : $address;
}

/** What the effect of a callback rests on. Amounts count by value (A2). */
function contentOf(array $m): string
{
    $to = $m['type'] === 5 ? '' : evm($m['toAddress'] ?? '');
    $replaced = $m['type'] === 4 ? evm($m['newAddress']) : '';
    $same = array_map(fn($name) => $m[$name] ?? null, ['tenantUserId', 'callBackId', 'txId', 'chainName', 'symbol']);
    return json([...$same, plain($m['amount'] ?? ''), $to, $replaced]);
}

/** The shortest form of an amount (A2). */
function plain(string $amount): string
{
    return str_contains($amount, '.') ? rtrim(rtrim($amount, '0'), '.') : $amount;
}

/** What moved to where, without regard to spelling (I3). */
function transferOf(array $m): string
{
    $fold = fn($text) => strtolower(preg_replace('/[^!-~]/', '', $text));
    $hex = fn($text) => preg_replace('/\A0x/', '', $fold($text));
    return json([$fold($m['chainName']), $hex($m['txId']), $fold($m['symbol']), $hex($m['toAddress'])]);
}

function take(State $state, array $m): void
{
    $tracking = $m['trackingId'] ?? '';
    $key = json([$m['type'], $tracking !== '' ? $tracking : $m['requestUUID'], $m['callBackId'] ?? '']);
    if (isset($state->taken[$key])) {
        if ($state->taken[$key] === contentOf($m)) {
            return; // I1: told before; answered again, done once
        }
        error_log("ALARM: known with other content: $key");
        throw new Refusal(2002, 'the identifier is known with other content');
    }
    $record = ['taken' => $key, 'callback' => $m];
    if ($m['type'] === 1) {
        // I2: a possible duplicate. It is recorded, but credited only after a person has decided.
        $twins = array_filter($state->transfers[transferOf($m)] ?? [], fn($d) => plain($d['amount']) === plain($m['amount'])
            || $d['txIndex'] === $m['txIndex'] || $d['txIndex'] < 0 || $m['txIndex'] < 0);
        $record['possibleDuplicate'] = $twins !== [];
    }
    // CREDIT: this line is the effect. With a database, insert the trackingId into
    // a unique column and credit tenantUserId in the same transaction, unless the
    // deposit is a possible duplicate. Types 3 to 7 are notices: M8, M9.
    $state->remember($record);
}

// ---- Answers (R2-R5)

function pick(array $m, string ...$names): array
{
    $picked = [];
    foreach ($names as $name) {
        if (array_key_exists($name, $m)) {
            $picked[$name] = $m[$name];
        }
    }
    return $picked;
}

function answerTo(State $state, array $m): array
{
    $uuid = ['requestUUID' => $m['requestUUID']];
    if ($m['type'] === 1) {
        take($state, $m);
        return [...pick($m, 'type', 'trackingId', 'txId', 'txIndex', 'chainName', 'symbol', 'amount', 'fromAddress', 'toAddress', 'tenantUserId'),
            'callBackId' => null, 'state' => null, 'tenantType' => null, ...$uuid];
    }
    if ($m['type'] === 2) {
        return [...pick($m, 'type', 'tenantUserId', 'callBackId'), ...detailsOf($state, $m), ...$uuid];
    }
    take($state, $m);
    $a = pick($m, 'type', 'trackingId', 'tenantUserId', 'callBackId', 'txId', 'chainName', 'symbol', 'amount', 'fromAddress', 'toAddress');
    if ($m['type'] === 4) {
        $a['toAddress'] = $m['newAddress']; // M8
    }
    return [...$a, ...$uuid];
}

/**
 * A withdrawal is confirmed from your own order book. The request gives only the two identifiers.
 * A confirmation is repeated for every later request (D4), until the withdrawal has ended or you mark its order
 * as cancelled (I1). Other services name no user, and then callBackId alone finds the order.
 */
function detailsOf(State $state, array $m): array
{
    $book = json_decode(file_get_contents(ORDERS_FILE), true, 512, JSON_THROW_ON_ERROR);
    $found = array_filter($book, fn($order) => $order['callBackId'] === $m['callBackId']);
    $order = reset($found) ?: throw new Refusal(2001, 'the order is unknown');
    if ($order['tenantUserId'] !== ($m['tenantUserId'] ?? $order['tenantUserId'])) {
        throw new Refusal(2002, 'the order is of another user');
    }
    if (($order['cancelled'] ?? false) || isset($state->ended[$m['callBackId']])) {
        error_log('ALARM: asked about an order that has ended: ' . json($m['callBackId']));
        throw new Refusal(2005, 'the order has ended');
    }
    if (!isset($state->confirmed[$m['callBackId']])) {
        $details = pick($order, 'tenantUserId', 'address', 'chainName', 'symbol', 'amount');
        $state->remember(['confirmed' => $m['callBackId'], 'trackingId' => $m['trackingId'] ?? null, 'details' => $details]);
    }
    $kept = $state->confirmed[$m['callBackId']];
    if ($kept['trackingId'] !== ($m['trackingId'] ?? null)) { // I1: one order pays one withdrawal
        throw new Refusal(2002, 'the order is of another withdrawal');
    }
    return $kept['details'];
}

function handle(State $state, string $path, string $body): string
{
    $blocks = blocksOf(sealedBytes($body));
    $plain = implode(array_map('openBlock', $blocks));
    $m = parseCallback($plain);
    if (($m['type'] === 2) !== ($path === WITHDRAW)) {
        throw new Refusal(1004, 'the callback type does not belong to this URL');
    }
    checkBinding($state, $plain, $m['requestUUID'], $blocks);
    $answer = answerTo($state, $m);
    foreach (pick($m['asSent'] ?? [], ...array_keys($answer)) as $name => $raw) {
        $answer[$name] = new Num($raw); // what came in another form goes back in that form (M12)
    }
    return seal($answer);
}

/** The status and the body of the response to any request (H2). It knows nothing of how requests arrive. */
function respond(State $state, string $method, string $path, string $apiKey, string $body): array
{
    if ($path !== NOTIFY && $path !== WITHDRAW) {
        return [404, ''];
    }
    if ($method !== 'POST') {
        return [405, ''];
    }
    if (!hash_equals(CALLBACK_API_KEY, $apiKey)) { // in constant time, and before any RSA
        return [401, ''];
    }
    try {
        [$status, $response] = [200, ['data' => handle($state, $path, $body), 'errCode' => 0, 'message' => '']];
    } catch (Refusal $r) {
        [$status, $response] = [$r->status, ['data' => '', 'errCode' => $r->errCode, 'message' => $r->getMessage()]];
    } catch (Throwable $e) { // the log gets the cause, the peer a fixed word
        error_log("callback failed: {$e->getMessage()} at line {$e->getLine()}");
        [$status, $response] = [200, ['data' => '', 'errCode' => 5000, 'message' => 'internal error']];
    }
    return [$status, json(['apiKey' => API_KEY, ...$response])];
}

// ---- HTTP (H2). One process serves all connections: the code of each is a Fiber,
// which rests while its connection has nothing to read or cannot be written to.

final class Gone extends Exception // the peer has closed the connection, or reads nothing
{
}

final class Unreadable extends Exception // a request, with the status that says why
{
    public function __construct(public readonly int $status)
    {
        parent::__construct();
    }
}

function now(): float
{
    return hrtime(true) / 1e9;
}

final class Connection
{
    public float $until = 0; // when the fiber goes on even if nothing came
    public bool $writes = false; // what it waits for
    private string $in = '';

    public function __construct(public readonly mixed $socket, private readonly State $state)
    {
        stream_set_blocking($socket, false);
    }

    public function serve(): void
    {
        try {
            while ($this->exchange()) {
            }
        } catch (Gone) {
        } catch (Throwable $e) {
            error_log("a connection failed: {$e->getMessage()} at line {$e->getLine()}");
        }
        fclose($this->socket);
    }

    private function exchange(): bool
    {
        $this->until = now() + 60; // that a connection may wait for its next request
        if ($this->in === '' && !$this->more()) {
            return false;
        }
        $this->until = now() + BODY_TIMEOUT; // for all headers together
        try {
            [$method, $path, $headers, $keep] = $this->head();
            $this->until = now() + BODY_TIMEOUT;
            $body = $this->body($headers);
        } catch (Unreadable $e) {
            $this->answer($e->status, '', false);
            $this->linger();
            return false;
        }
        [$status, $response] = respond($this->state, $method, $path, $headers['x-api-key'] ?? '', $body);
        $this->answer($status, $response, $keep);
        return $keep;
    }

    private function head(): array
    {
        if (!preg_match('#\A([A-Z]+) (\S+) HTTP/1\.([01])\z#', $this->line(), $request)) {
            throw new Unreadable(400);
        }
        for ($headers = [], $size = 0; ($line = $this->line()) !== ''; $size += strlen($line)) {
            [$name, $value] = [...explode(':', $line, 2), null];
            if ($value === null || !preg_match('/\A[!-~]+\z/', $name) || $size > 16_384) {
                throw new Unreadable(400);
            }
            $name = strtolower($name);
            $value = trim($value, " \t");
            $headers[$name] = isset($headers[$name]) ? "$headers[$name], $value" : $value; // two lengths are no number
        }
        $close = $request[3] === '0' || strtolower($headers['connection'] ?? '') === 'close';
        return [$request[1], $request[2], $headers, !$close];
    }

    /** The whole body: at most MAX_BODY bytes, within BODY_TIMEOUT. */
    private function body(array $headers): string
    {
        if (strtolower($headers['expect'] ?? '') === '100-continue') {
            $this->write("HTTP/1.1 100 Continue\r\n\r\n");
        }
        if (!isset($headers['transfer-encoding'])) {
            return $this->read($this->size($headers['content-length'] ?? '0', '/\A[0-9]{1,9}\z/', 10, 0));
        }
        if (strtolower($headers['transfer-encoding']) !== 'chunked' || isset($headers['content-length'])) {
            throw new Unreadable(400);
        }
        $body = '';
        while ($size = $this->size(explode(';', $this->line())[0], '/\A[0-9a-fA-F]{1,7}[ \t]*\z/', 16, strlen($body))) {
            $body .= $this->read($size);
            if ($this->line() !== '') {
                throw new Unreadable(400);
            }
        }
        while ($this->line() !== '') { // trailers
        }
        return $body;
    }

    /** How many bytes come, as a text of the shape says it, if they fit behind those that came before. */
    private function size(string $text, string $shape, int $base, int $before): int
    {
        if (!preg_match($shape, $text)) {
            throw new Unreadable(400);
        }
        $size = intval($text, $base);
        return $before + $size <= MAX_BODY ? $size : throw new Unreadable(413);
    }

    /** Waits for more to read. False: the time is over. */
    private function more(): bool
    {
        $this->writes = false;
        Fiber::suspend();
        $data = (string) @fread($this->socket, 65_536);
        if ($data === '' && feof($this->socket)) {
            throw new Gone();
        }
        $this->in .= $data;
        return now() < $this->until;
    }

    private function read(int $n): string
    {
        while (strlen($this->in) < $n) {
            $this->more() ?: throw new Unreadable(408);
        }
        [$data, $this->in] = [substr($this->in, 0, $n), substr($this->in, $n)];
        return $data;
    }

    private function line(): string
    {
        while (($end = strpos($this->in, "\r\n")) === false) {
            if (strlen($this->in) > 16_384) {
                throw new Unreadable(400);
            }
            $this->more() ?: throw new Unreadable(408);
        }
        return substr($this->read($end + 2), 0, -2);
    }

    private function answer(int $status, string $body, bool $keep): void
    {
        $this->until = now() + BODY_TIMEOUT;
        $reasons = [200 => 'OK', 400 => 'Bad Request', 401 => 'Unauthorized', 404 => 'Not Found', 405 => 'Method Not Allowed',
            408 => 'Request Timeout', 413 => 'Content Too Large'];
        $this->write("HTTP/1.1 $status $reasons[$status]\r\nContent-Type: application/json\r\nContent-Length: " . strlen($body) .
            ($keep ? '' : "\r\nConnection: close") . "\r\n\r\n" . $body);
    }

    private function write(string $data): void
    {
        while (($n = @fwrite($this->socket, $data)) !== strlen($data)) {
            if ($n === false || now() >= $this->until) {
                throw new Gone();
            }
            $data = substr($data, $n);
            $this->writes = true;
            Fiber::suspend();
        }
    }

    /** Reads on after the response to an unread body: closing at once would reset the connection before the peer reads it. */
    private function linger(): void
    {
        stream_socket_shutdown($this->socket, STREAM_SHUT_WR);
        $this->until = now() + 1;
        for ($rest = 8 * MAX_BODY; $rest > 0 && $this->more(); $this->in = '') {
            $rest -= strlen($this->in);
        }
    }
}

$state = new State(setting('STATE_FILE', ''));
$options = stream_context_create(['socket' => ['backlog' => 128, 'tcp_nodelay' => true]]);
$listener = stream_socket_server('tcp://' . setting('LISTEN', '127.0.0.1:8090'), context: $options);
echo 'listening on http://', stream_socket_get_name($listener, false), "\n";

for ($open = [], $number = 0, $none = null;;) {
    $read = count($open) < 1000 ? ['new' => $listener] : []; // stream_select takes no more than 1024
    $write = [];
    $next = now() + 60;
    foreach ($open as $i => [$connection]) {
        if ($connection->writes) {
            $write[$i] = $connection->socket;
        } else {
            $read[$i] = $connection->socket;
        }
        $next = min($next, $connection->until);
    }
    $wait = max(0, $next - now());
    @stream_select($read, $write, $none, (int) $wait, (int) (fmod($wait, 1) * 1e6));
    if (isset($read['new']) && $socket = @stream_socket_accept($listener, 0)) {
        $connection = new Connection($socket, $state);
        $open[++$number] = [$connection, $fiber = new Fiber($connection->serve(...))];
        $fiber->start();
    }
    foreach ($open as $i => [$connection, $fiber]) {
        if (isset($read[$i]) || isset($write[$i]) || now() >= $connection->until) {
            $fiber->resume();
        }
        if ($fiber->isTerminated()) {
            unset($open[$i]);
        }
    }
}
