package envelope

import (
	"bytes"
	"encoding/base64"
	"errors"
	"sync"
	"testing"
)

// backwards runs the calls beside each other, the last one first.
func backwards(n int, f func(int)) error {
	var wg sync.WaitGroup
	for i := n - 1; i >= 0; i-- {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
	return nil
}

// What is larger than Most costs no RSA, however its blocks are filled.
func TestWorkerOpensNothingLarger(t *testing.T) {
	key := key1024(t)
	ran := 0
	w := Worker{Most: 1000, Each: func(n int, f func(int)) error {
		ran++
		for i := range n {
			f(i)
		}
		return nil
	}}
	for _, k := range [][2]*Key{{key, key.Public()}, {key.Public(), key}} {
		most := key.Blocks(PKCS1v15, w.Most) * key.MaxChunk(PKCS1v15)
		ran = 0
		if opened, err := w.Open(k[1], PKCS1v15, mustSeal(t, k[0], PKCS1v15, sample(most))); err != nil || len(opened) != most || ran != 1 {
			t.Errorf("%d bytes, %v after %d runs", len(opened), err, ran)
		}
		if _, err := w.Open(k[1], PKCS1v15, mustSeal(t, k[0], PKCS1v15, sample(most+1))); !errors.Is(err, ErrTooLarge) || ran != 1 {
			t.Errorf("one block more: %v after %d runs", err, ran)
		}
	}
}

// In whatever order and on whatever goroutines blocks are worked, the messages
// are the same.
func TestWorkerGivesWhatTheFunctionsGive(t *testing.T) {
	key := key1024(t)
	w := Worker{Each: backwards}
	for _, length := range []int{1, 117, 118, 500, 2000} {
		plain := sample(length)
		sealed := must(w.Seal(key, PKCS1v15, plain))(t)
		if !bytes.Equal(sealed, mustSeal(t, key, PKCS1v15, plain)) {
			t.Errorf("%d bytes: sealed otherwise", length)
		}
		for _, k := range [][2]*Key{{key, key.Public()}, {key.Public(), key}} {
			body := must(w.Seal(k[0], PKCS1v15, plain))(t)
			opened, lengths, err := w.OpenBlocks(k[1], PKCS1v15, body)
			if err != nil || !bytes.Equal(opened, plain) {
				t.Errorf("%d bytes: opened to %d bytes, error %v", length, len(opened), err)
			}
			for i, n := range lengths {
				if n != min(117, length-117*i) {
					t.Errorf("%d bytes: block %d held %d", length, i, n)
				}
			}
			if len(lengths) != key.Blocks(PKCS1v15, length) {
				t.Errorf("%d bytes: lengths of %d blocks", length, len(lengths))
			}
		}
	}
}

// What is not done is no message.
func TestWorkerThatGivesUpGivesNothing(t *testing.T) {
	key := key1024(t)
	plain := sample(300)
	cause := errors.New("no core")
	w := Worker{Each: func(n int, f func(int)) error {
		for i := range n - 1 {
			f(i)
		}
		return cause
	}}
	for _, k := range []*Key{key, key.Public()} {
		if body, err := w.Seal(k, PKCS1v15, plain); !errors.Is(err, cause) || body != nil {
			t.Errorf("sealing gave %d bytes, error %v", len(body), err)
		}
	}
	for _, k := range [][2]*Key{{key, key.Public()}, {key.Public(), key}} {
		body := mustSeal(t, k[0], PKCS1v15, plain)
		if opened, err := w.Open(k[1], PKCS1v15, body); !errors.Is(err, cause) || opened != nil {
			t.Errorf("opening gave %d bytes, error %v", len(opened), err)
		}
	}
}

// One bad block stops none of the others, whoever works them.
func TestWorkerOpensEveryBlockWhateverOneGives(t *testing.T) {
	key := key1024(t)
	body := must(decodeBody(mustSeal(t, key.Public(), PKCS1v15, sample(500))))(t)
	body[200] ^= 1 // in the second block
	var mu sync.Mutex
	ran := map[int]bool{}
	w := Worker{Each: func(n int, f func(int)) error {
		return backwards(n, func(i int) {
			f(i)
			mu.Lock()
			ran[i] = true
			mu.Unlock()
		})
	}}
	if opened, err := w.Open(key, PKCS1v15, base64.StdEncoding.AppendEncode(nil, body)); !errors.Is(err, ErrOpen) || opened != nil {
		t.Errorf("opening gave %d bytes, error %v", len(opened), err)
	}
	if len(ran) != 5 {
		t.Errorf("%d of 5 blocks were opened", len(ran))
	}
}
