// Package envelope seals and opens payloads with RSA, block by block, in
// either direction of a key pair, explains to people why a body does not
// open, and signs and verifies the messages of the signed link.
//
// PROTOCOL.md, Sealing, has the blocks and which part of the pair makes and opens which. A Key knows its parts, so Seal
// and Open need no direction. A holder of the private part acts as the other end with [Key.Public].
//
// A body that the public part opens was made, block for block, by the holder of the private part. It does not prove
// that the blocks belong together; the binding of package countersign does.
//
// # Failure
//
// Opening with the public part says exactly what is wrong ([BlockError]),
// because every holder of that part can compute it. Opening with the private
// part runs every block and then returns [ErrOpen] for any fault inside the
// blocks. A peer that learned more could use the holder as a decryption oracle
// (PROTOCOL.md, S7). [Explain] says more. It is for a person at a terminal who
// holds the key; never send to a peer what it says.
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
