package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
)

// TestExposedFiles: a file with a secret that others may read or write is refused,
// with its name, its mode and what to run; a policy is taken with a warning. What only the owner may use raises neither.
func TestExposedFiles(t *testing.T) {
	dbtest.Whole(t, "this test starts many processes")
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		return path
	}
	service := countersigntest.NewService(t)
	public := service.MerchantKey().PublicBase64()
	own, err := envelope.GenerateKey(1024)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := own.PrivatePEM()
	if err != nil {
		t.Fatal(err)
	}
	key, secret := secretFile(t, public), file("secret", "a-secret-of-somebody", 0o400)
	// Both paths are the same, so that a gateway which takes its files ends all the same.
	gateway := func(args ...string) []string {
		return append([]string{"gateway", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0",
			"--notify-path", "/a", "--withdraw-path", "/a"}, args...)
	}
	const taken = "a path of its own"
	for i, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602} {
		open := file(fmt.Sprint("open", i), public, mode)
		openPair := file(fmt.Sprint("pair", i), string(pair), mode)
		can := map[bool]string{true: "read", false: "written"}[mode&0o044 != 0]
		says := func(path string) string {
			return fmt.Sprintf("%s can be %s by others (mode %04o): chmod 600 %s", path, can, mode, path)
		}
		api := []string{"--api", "http://127.0.0.1:1"}
		for name, c := range map[string]struct {
			args []string
			want string
			also string // "": the exposed file ends it
		}{
			"service key":      {gateway("--api-key", "k", "--service-key", open), says(open), ""},
			"own pair":         {gateway("--api-key", "k", "--service-key", openPair), says(openPair), ""},
			"response key":     {gateway("--api-key", "k", "--service-key", key, "--response-key", open), says(open), ""},
			"api key":          {gateway("--api-key", "@"+open, "--service-key", key), says(open), ""},
			"callback api key": {gateway("--api-key", "k", "--callback-api-key", "@"+open, "--service-key", key), says(open), ""},
			"forward secret":   {gateway("--api-key", "k", "--service-key", key, "--forward-url", "https://x", "--forward-secret", "@"+open), says(open), ""},
			"forward url":      {gateway("--api-key", "k", "--service-key", key, "--forward-url", "@"+open), says(open), ""},
			"token":            {append([]string{"merchants", "list", "--token", "@" + open}, api...), says(open), ""},
			"private key":      {append([]string{"merchants", "rotate", "stage", "m", "--token", "@" + secret, "key.privateKey=@" + openPair}, api...), says(openPair), ""},
			"public key": {append([]string{"merchants", "rotate", "stage", "m", "--token", "@" + secret, "key.publicKey=@" + open}, api...),
				says(open), ""},
			"policy": {gateway("--api-key", "k", "--service-key", key, "--policy", file(fmt.Sprint("policy", i), `default = "allow"`, mode)),
				"level=WARN", taken},
		} {
			status, out, errOut := shell(t, "", c.args...)
			if status != exitFailed || !strings.Contains(errOut, c.want) || !strings.Contains(errOut, c.also) || c.also == "" && strings.Contains(errOut, taken) {
				t.Errorf("%s, mode %04o: status %d\n%s%s\nwant %s", name, mode, status, out, errOut, c.want)
			}
			if strings.Contains(out+errOut, public) {
				t.Errorf("%s: the file's content was printed", name)
			}
		}
		if status, _, errOut := shell(t, "", "keys", "show", openPair); status != exitDone || !strings.Contains(errOut, "warning: "+says(openPair)) {
			t.Errorf("keys show, mode %04o: status %d, %s", mode, status, errOut)
		}
	}
	policy := file("policy", `default = "allow"`, 0o600)
	if _, _, errOut := shell(t, "", gateway("--api-key", "@"+secret, "--service-key", key, "--policy", policy)...); !strings.Contains(errOut, taken) || strings.Contains(errOut, "others") {
		t.Errorf("the owner's files: %s", errOut)
	}
}
