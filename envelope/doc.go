// Package envelope seals and opens payloads with RSA, block by block, in
// either direction of a key pair, and explains to people why a body does not
// open.
//
// # Which part does what
//
// One pair joins a service and a merchant. The service keeps the private part,
// the merchant holds the public part, and each end both seals and opens:
//
//	holder of the private part   Seal writes block type 1   Open reads block type 2
//	holder of the public part    Seal writes block type 2   Open reads block type 1
//
// A Key knows its parts, so Seal and Open need no direction. Who holds a private
// part and wants to act as the other end uses [Key.Public]. In the second
// scheme, [OAEP], only the public part seals and only the private part opens.
//
// # Which bytes go where
//
// With a modulus of k bytes, the plaintext is cut into chunks of k−11 bytes
// (k−66 with OAEP), the last one shorter; the cut minds bytes, not characters.
// Each chunk becomes one block of k bytes:
//
//	type 1   00 01 FF … FF 00 chunk     at least eight FF
//	type 2   00 02 rr … rr 00 chunk     at least eight random bytes, none zero
//
// Blocks are joined and the whole is written once in standard Base64 with
// padding. An opener takes chunks of any length from one byte up, because peers
// exist that cut shorter.
//
// # What a seal proves
//
// A body that the public part opens was made, block for block, by the holder of
// the private part. That says nothing of blocks belonging together, which is
// what the binding of package countersign is for. A body that the private part
// opens proves nothing about who sealed it, beyond holding the public part,
// and in this protocol a merchant's public part is a secret.
//
// # Failure
//
// Opening with the public part may say exactly what is wrong ([BlockError]),
// since whoever holds that part can compute all of it. Opening with the private
// part gives [ErrOpen] for everything inside the blocks, after running every
// block, because a peer that learns more can use the holder as a decryption
// oracle (PROTOCOL.md, Sealing). [Explain] and [Diagnose] do tell more. They
// are for a person at a terminal who holds the key; nothing that they
// say may be sent to a peer.
//
// # Arithmetic
//
// Private operations, and sealing with the public part, are those of crypto/rsa.
// Opening with the public part is one exponentiation per block: by
// filippo.io/bigmod for moduli up to 2048 bits, where it takes down to half the time of
// math/big and allocates next to nothing, and by math/big above, where the
// figures turn round. Moduli of any bit length from 1024 to 8192 work, whole
// bytes or not.
//
// Everything here may be used from several goroutines at once.
package envelope
