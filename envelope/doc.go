// Package envelope seals and opens payloads with RSA, block by block, in
// either direction of a key pair, explains to people why a body does not
// open, and signs and verifies the messages of the signed link.
//
// # Which part does what
//
// One pair joins a service and a merchant. The service keeps the private part,
// the merchant holds the public part, and each end both seals and opens:
//
//	holder of the private part   Seal writes block type 1   Open reads block type 2
//	holder of the public part    Seal writes block type 2   Open reads block type 1
//
// A Key knows its parts, so Seal and Open need no direction. A holder of the
// private part acts as the other end with [Key.Public]. In the second
// scheme, [OAEP], only the public part seals and only the private part opens.
//
// # Which bytes go where
//
// With a modulus of k bytes, the plaintext is cut into chunks of k−11 bytes
// (k−66 with OAEP), the last one shorter. A character may lie across two chunks.
// Each chunk becomes one block of k bytes:
//
//	type 1   00 01 FF … FF 00 chunk     at least eight FF
//	type 2   00 02 rr … rr 00 chunk     at least eight random bytes, none zero
//
// Blocks are joined and the whole is written once in standard Base64 with
// padding. An opener takes chunks of any length from one byte up, because some
// peers cut shorter ones.
//
// # What a seal proves
//
// A body that the public part opens was made, block for block, by the holder of
// the private part. It does not prove that the blocks belong together; the
// binding of package countersign does. A body that the private part opens was
// made by a holder of the public part, which in this protocol is a secret of
// the service and its merchant.
//
// # Failure
//
// Opening with the public part says exactly what is wrong ([BlockError]),
// because every holder of that part can compute it. Opening with the private
// part runs every block and then returns [ErrOpen] for any fault inside the
// blocks. A peer that learned more could use the holder as a decryption oracle
// (PROTOCOL.md, S7). [Explain] and [Diagnose] say more. They are for a person
// at a terminal who holds the key; never send to a peer what they say.
//
// # The signed link
//
// Two ends that agree on it sign requests and responses with an Ed25519 pair each
// (PROTOCOL.md, The signed link): [SigningKey.SignRequest] and [VerifyRequest],
// [SigningKey.SignResponse] and [VerifyResponse]. A response is signed for one request.
//
// # Arithmetic
//
// Private operations are those of crypto/rsa, or with the build tag openssl those
// of OpenSSL 3, whose private parts are then in OpenSSL's memory; [Library] says
// which. Sealing with the public part is crypto/rsa's.
// Opening with the public part is one exponentiation per block. For moduli up to
// 2048 bits filippo.io/bigmod computes it, in as little as half the time of
// math/big and almost without allocations; for larger ones math/big does, which
// is faster there. A modulus may have any number of bits from 1024 to 8192.
//
// Everything here may be used from several goroutines at once.
package envelope
