package envelope

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// needPeer skips where a peer is not installed, and fails in CI, where all are.
func needPeer(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed, and CI must have it", program)
	}
	t.Skipf("%s is not installed: nothing was compared with it", program)
	return ""
}

// interopPlains is every length of one block, then messages of several blocks, one
// of them with a character across a boundary. Outside of the whole check it is every
// eighth length, and all with little padding: TestEveryLength has the others.
func interopPlains(t *testing.T, key *Key) [][]byte {
	t.Helper()
	chunk := key.MaxChunk(PKCS1v15)
	var plains [][]byte
	for n := 1; n <= chunk; n++ {
		if os.Getenv("COUNTERSIGN_WHOLE") != "" || n%8 == 1 || n > chunk-10 {
			plains = append(plains, sample(n))
		}
	}
	for _, n := range []int{chunk + 1, 2*chunk - 1, 2 * chunk, 2*chunk + 1, 450, 7*chunk + 3} {
		plains = append(plains, sample(n))
	}
	straddling := []byte(strings.Repeat("x", chunk-1) + "€ and more €")
	if utf8.Valid(straddling[:chunk]) || !utf8.Valid(straddling) {
		t.Fatal("no character lies across the boundary")
	}
	zeros := make([]byte, chunk+5) // data that looks like the end of padding
	return append(plains, straddling, zeros)
}

// linePeer runs a peer once and hands it all requests.
func linePeer(t *testing.T, command []string, requests []string) [][]byte {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(requests, "\n") + "\n")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(command[0]), err, stderr.Bytes())
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(requests) {
		t.Fatalf("%d requests got %d answers\n%s", len(requests), len(lines), stderr.Bytes())
	}
	answers := make([][]byte, len(lines))
	for i, line := range lines {
		if strings.HasPrefix(line, "error") {
			operation, _, _ := strings.Cut(requests[i], " ")
			t.Fatalf("request %d, %s: %s", i, operation, line)
		}
		answers[i] = []byte(line)
	}
	return answers
}

// TestInteropJava compares with RSA/ECB/PKCS1Padding in all four operations.
func TestInteropJava(t *testing.T) {
	if os.Getenv("COUNTERSIGN_WHOLE") == "" {
		t.Skip("COUNTERSIGN_WHOLE=1 runs it: OpenSSL and Node are compared with in a fifth of the time")
	}
	java := needPeer(t, "java")
	testLinePeer(t, []string{java, filepath.Join("testdata", "interop", "Peer.java")}, true)
}

// TestInteropNode compares with privateEncrypt, publicDecrypt and publicEncrypt.
// privateDecrypt is left out: Node 20 refuses it for PKCS#1 v1.5 padding, so a
// Node service needs another way to open answers.
func TestInteropNode(t *testing.T) {
	node := needPeer(t, "node")
	testLinePeer(t, []string{node, filepath.Join("testdata", "interop", "peer.js")}, false)
}

func testLinePeer(t *testing.T, command []string, opensPrivate bool) {
	var requests []string
	var checks []func([]byte)
	for _, bits := range []int{1024, 2048} {
		key := testKey(t, fmt.Sprint(bits), bits)
		private := base64.StdEncoding.EncodeToString(pkcs8Of(t, key))
		public := key.PublicBase64()
		plains := interopPlains(t, key)
		if bits > 1024 {
			// Lengths were compared at 1024 bit; the rest is about sizes.
			plains = plains[len(plains)-11:]
		}
		for _, plain := range plains {
			text := base64.StdEncoding.EncodeToString(plain)
			ours := mustSeal(t, key, PKCS1v15, plain)
			ask := func(request string, check func(answer []byte)) {
				requests = append(requests, request)
				checks = append(checks, check)
			}
			ask("sealPrivate "+private+" "+text, func(answer []byte) {
				if !bytes.Equal(answer, ours) {
					t.Errorf("%d bits, %d bytes: it seals with the private part to another body", bits, len(plain))
				}
				if got, err := Open(key.Public(), PKCS1v15, answer); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("%d bits, %d bytes: its body does not open with the public part: %v", bits, len(plain), err)
				}
			})
			ask("openPublic "+public+" "+string(ours), func(answer []byte) {
				if string(answer) != text {
					t.Errorf("%d bits, %d bytes: it opens our body to something else", bits, len(plain))
				}
			})
			ask("sealPublic "+public+" "+text, func(answer []byte) {
				if got, err := Open(key, PKCS1v15, answer); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("%d bits, %d bytes: its body does not open with the private part: %v", bits, len(plain), err)
				}
			})
			if opensPrivate {
				ask("openPrivate "+private+" "+string(mustSeal(t, key.Public(), PKCS1v15, plain)), func(answer []byte) {
					if string(answer) != text {
						t.Errorf("%d bits, %d bytes: it opens the body of the public part to something else", bits, len(plain))
					}
				})
			}
		}
	}
	for i, answer := range linePeer(t, command, requests) {
		checks[i](answer)
	}
	t.Logf("%d operations agree", len(requests))
}

func pkcs8Of(t *testing.T, key *Key) []byte {
	t.Helper()
	block, _ := pem.Decode(must(key.PrivatePEM())(t))
	return block.Bytes
}

// TestInteropOpenSSL runs one openssl for each block, as a person without any
// library would. rsautl is old and still the one tool that seals any number of
// bytes with the private part.
func TestInteropOpenSSL(t *testing.T) {
	openssl := needPeer(t, "openssl")
	key := key1024(t)
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		ok(t, os.WriteFile(path, b, 0o600))
		return path
	}
	privateFile := write("private.pem", must(key.PrivatePEM())(t))
	publicFile := write("public.pem", key.PublicPEM())
	run := func(operation string, b []byte) ([]byte, error) {
		args := map[string][]string{
			"seal private": {"-sign", "-inkey", privateFile},
			"open public":  {"-verify", "-pubin", "-inkey", publicFile},
			"seal public":  {"-encrypt", "-pubin", "-inkey", publicFile},
			"open private": {"-decrypt", "-inkey", privateFile},
		}[operation]
		cmd := exec.Command(openssl, append([]string{"rsautl", "-pkcs"}, args...)...)
		cmd.Stdin = bytes.NewReader(b)
		return cmd.Output()
	}
	// blocks runs operation on every piece of b.
	blocks := func(operation string, b []byte) ([]byte, error) {
		step := key.Size()
		if strings.HasPrefix(operation, "seal") {
			step = key.MaxChunk(PKCS1v15)
		}
		var all []byte
		for piece := range slices.Chunk(b, step) {
			out, err := run(operation, piece)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", operation, err)
			}
			all = append(all, out...)
		}
		return all, nil
	}

	work := make(chan []byte)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for plain := range work {
				if problem := compareOpenSSL(key, plain, blocks); problem != "" {
					t.Errorf("%d bytes: %s", len(plain), problem)
				}
			}
		})
	}
	for _, plain := range interopPlains(t, key) {
		work <- plain
	}
	close(work)
	workers.Wait()
}

func compareOpenSSL(key *Key, plain []byte, blocks func(string, []byte) ([]byte, error)) string {
	body, err := Seal(key, PKCS1v15, plain)
	if err != nil {
		return err.Error()
	}
	theirs, err := blocks("seal private", plain)
	if err != nil {
		return err.Error()
	}
	if !bytes.Equal(b64(theirs), body) {
		return "it seals with the private part to another body"
	}
	ours, err := decodeBody(body)
	if err != nil {
		return err.Error()
	}
	if got, err := blocks("open public", ours); err != nil || !bytes.Equal(got, plain) {
		return fmt.Sprintf("it does not open our body with the public part: %v", err)
	}
	if theirs, err = blocks("seal public", plain); err != nil {
		return err.Error()
	}
	if got, err := Open(key, PKCS1v15, b64(theirs)); err != nil || !bytes.Equal(got, plain) {
		return fmt.Sprintf("we do not open its body with the private part: %v", err)
	}
	if body, err = Seal(key.Public(), PKCS1v15, plain); err != nil {
		return err.Error()
	}
	if ours, err = decodeBody(body); err != nil {
		return err.Error()
	}
	if got, err := blocks("open private", ours); err != nil || !bytes.Equal(got, plain) {
		return fmt.Sprintf("it does not open our body with the private part: %v", err)
	}
	return ""
}
