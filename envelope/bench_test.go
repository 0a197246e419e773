package envelope

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"filippo.io/bigmod"
)

// payload is as long as a deposit callback.
const payload = 450

// BenchmarkPrivate seals (type 1) and opens (type 2) a payload with the private
// part and, in turns with that, the same operation alone on as many single blocks.
// overhead-% is the time that the package adds; the goal is at most 5.
func BenchmarkPrivate(b *testing.B) {
	for _, bits := range []int{1024, 2048} {
		key := testKey(b, fmt.Sprint(bits), bits)
		plain := sample(payload)
		blocks := key.Blocks(PKCS1v15, payload)
		chunk := plain[:key.MaxChunk(PKCS1v15)]
		sealed := mustSeal(b, key.Public(), PKCS1v15, plain)
		block := must(sealBlock(key.Public(), PKCS1v15, newPublicOperation(key.p()), chunk))(b)
		private := key.p()
		b.Run(fmt.Sprintf("seal/%d", bits), func(b *testing.B) {
			compare(b, blocks, func() error { _, err := Seal(key, PKCS1v15, plain); return err },
				func() error { _, err := private.sealPrivate(chunk); return err })
		})
		b.Run(fmt.Sprintf("open/%d", bits), func(b *testing.B) {
			compare(b, blocks, func() error { _, err := Open(key, PKCS1v15, sealed); return err },
				func() error { _, err := private.openPrivate(PKCS1v15, block); return err })
		})
	}
}

// BenchmarkPublic opens (type 1) and seals (type 2) a payload with the public
// part, next to one exponentiation per block by math/big. µs/block is to be at
// most 25 at 1024 bit, or below math/big.
func BenchmarkPublic(b *testing.B) {
	for _, bits := range []int{1024, 2048} {
		key := testKey(b, fmt.Sprint(bits), bits)
		plain := sample(payload)
		blocks := key.Blocks(PKCS1v15, payload)
		body := mustSeal(b, key, PKCS1v15, plain)
		x := new(big.Int).SetBytes(unb64(b, body)[:key.Size()])
		out := make([]byte, key.Size())
		raw := func() error {
			new(big.Int).Exp(x, key.p().e, key.p().public.N).FillBytes(out)
			return nil
		}
		public := key.Public()
		b.Run(fmt.Sprintf("open/%d", bits), func(b *testing.B) {
			compare(b, blocks, func() error { _, err := Open(public, PKCS1v15, body); return err }, raw)
		})
		b.Run(fmt.Sprintf("seal/%d", bits), func(b *testing.B) {
			compare(b, blocks, func() error { _, err := Seal(public, PKCS1v15, plain); return err }, raw)
		})
	}
}

// compare runs whole, which does blocks operations, and raw in turns, so that both
// see the same machine. raw runs once more than whole has blocks: BoringSSL does
// extra work in every 32nd operation, and turns of 4 and 4 would charge it always
// to the same side.
func compare(b *testing.B, blocks int, whole, raw func() error) {
	b.Helper()
	var wholeTime, rawTime time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		if err := whole(); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		for range blocks + 1 {
			if err := raw(); err != nil {
				b.Fatal(err)
			}
		}
		wholeTime += middle.Sub(start)
		rawTime += time.Since(middle)
	}
	micros := func(d time.Duration, operations int) float64 {
		return float64(d.Nanoseconds()) / 1000 / float64(b.N*operations)
	}
	wholeEach, rawEach := micros(wholeTime, blocks), micros(rawTime, blocks+1)
	b.ReportMetric(wholeEach, "µs/block")
	b.ReportMetric(rawEach, "raw-µs/block")
	b.ReportMetric(100*(wholeEach/rawEach-1), "overhead-%")
}

// BenchmarkUniform opens blocks that are good and bad in different ways, in turns, and
// reports the median of each kind beside that of good ones. A peer who could tell
// them apart by time could use the holder of the private part as an oracle.
func BenchmarkUniform(b *testing.B) {
	const samples = 3000
	for _, bits := range []int{1024, 2048} {
		key := testKey(b, fmt.Sprint(bits), bits)
		raw := func(encoded []byte) []byte { return b64(rawPublic(b, key, encoded)) }
		k := key.Size()
		bodies := map[string][]byte{
			"good":     mustSeal(b, key.Public(), PKCS1v15, sample(key.MaxChunk(PKCS1v15))),
			"short":    mustSeal(b, key.Public(), PKCS1v15, []byte("x")),
			"type-1":   raw(encoded(key, 1, 0x55, -1, sample(9))),
			"seven":    raw(encoded(key, 2, 0x55, 7, sample(60))),
			"no-end":   raw(append([]byte{0, 2}, bytes.Repeat([]byte{0x55}, k-2)...)),
			"no-data":  raw(encoded(key, 2, 0x55, k-3, nil)),
			"garbage":  raw(append([]byte{0}, bytes.Repeat([]byte{0xA7}, k-1)...)),
			"too-high": b64(bytes.Repeat([]byte{0xFF}, k)),
		}
		b.Run(fmt.Sprint(bits), func(b *testing.B) {
			took := map[string][]time.Duration{}
			for range samples {
				for name, body := range bodies {
					start := time.Now()
					_, _ = Open(key, PKCS1v15, body)
					took[name] = append(took[name], time.Since(start))
				}
			}
			median := func(name string) float64 {
				slices.Sort(took[name])
				return float64(took[name][samples/2].Nanoseconds()) / 1000
			}
			good := median("good")
			b.ReportMetric(good, "good-µs")
			for name := range bodies {
				if name != "good" {
					b.ReportMetric(100*(median(name)/good-1), name+"-%")
				}
			}
			b.ReportMetric(0, "ns/op") // hides the time of all together
		})
	}
}

// BenchmarkPublicOperation measures both ways to raise one block, from which
// bigmodBits is taken.
func BenchmarkPublicOperation(b *testing.B) {
	for _, bits := range []int{1024, 1032, 1536, 2048, 2056, 3072, 4096} {
		// Not a key: any odd modulus takes the same time.
		n := must(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits))))(b)
		n.SetBit(n, bits-1, 1).SetBit(n, 0, 1)
		modulus := must(bigmod.NewModulus(n.Bytes()))(b)
		p := parts{public: &rsa.PublicKey{N: n, E: MinExponent}, size: (bits + 7) / 8, n: n.Bytes(), e: big.NewInt(MinExponent), modulus: modulus}
		q := p
		q.modulus = nil
		block := make([]byte, p.size)
		copy(block[1:], n.Bytes())
		for name, op := range map[string]*publicOperation{"bigmod": newPublicOperation(&p), "mathbig": newPublicOperation(&q)} {
			b.Run(fmt.Sprintf("%s/%d", name, bits), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					op.raise(block)
				}
			})
		}
	}
}

// BenchmarkLargestBody opens 64 KiB with the public part: bytes that end at the
// first block, and the worst, a body of nothing but good blocks. ms/body is to
// be below 50.
func BenchmarkLargestBody(b *testing.B) {
	for _, bits := range []int{1024, 2048, 4096} {
		key := testKey(b, fmt.Sprint(bits), bits)
		sealed := make([]byte, key.Blocks(PKCS1v15, key.MaxPlaintext(PKCS1v15))*key.Size())
		bodies := map[string][]byte{"zero": b64(sealed)}
		for i := range sealed {
			sealed[i] = 0xFF
		}
		bodies["FF"] = b64(sealed)
		_, _ = rand.Read(sealed)
		bodies["random"] = b64(sealed)
		block := must(sealBlock(key, PKCS1v15, nil, sample(key.MaxChunk(PKCS1v15))))(b)
		for i := 0; i < len(sealed); i += key.Size() {
			copy(sealed[i:], block)
		}
		bodies["good"] = b64(sealed)
		for name, body := range bodies {
			b.Run(fmt.Sprintf("%s/%d", name, bits), func(b *testing.B) {
				for b.Loop() {
					_, err := Open(key.Public(), PKCS1v15, body)
					if (err == nil) != (name == "good") {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/body")
			})
		}
	}
}
