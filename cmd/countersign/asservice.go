package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign"
	"countersign/conformance"
	"countersign/envelope"
	"countersign/internal/daemon"
)

// wireFlags are the flags that send, check and listen share.
type wireFlags struct {
	OAEP           bool   `name:"oaep" help:"Requests are sealed with OAEP, by the merchant's public key."`
	ResponseOAEP   bool   `name:"response-oaep" help:"Answers are sealed with OAEP."`
	Provider       string `help:"Kind of service to play. countersign: one of this project; other: any other, whose requests are not bound and whose members may be missing or in other forms. Give check another --order for each." enum:"countersign,other" default:"countersign"`
	APIKey         secret `name:"api-key" help:"The merchant's API key, which every response carries; @FILE reads it." placeholder:"VALUE"`
	CallbackAPIKey secret `name:"callback-api-key" help:"API key that callbacks carry in a header; @FILE reads it. Empty: none." placeholder:"VALUE"`
	APIKeyHeader   string `name:"api-key-header" help:"Header that carries it." default:"X-API-KEY" placeholder:"NAME"`
	In             string `help:"Directory of the secrets without --key, as keys new --api-key makes it: private.pem, public.b64, api.key." default:"provider" placeholder:"DIR"`
	Sign           string `help:"The Ed25519 pair with which this end signs (docs/merchant/keys.md); PKCS#8 in PEM, as openssl genpkey -algorithm ed25519 makes it. The other end must have its public part." placeholder:"FILE"`
}

// keys returns the API keys and the signing pair.
func (f wireFlags) keys() (apiKey, callbackAPIKey countersign.APIKey, sign *envelope.SigningKey, err error) {
	own, err := f.APIKey.reveal("api-key")
	if err != nil {
		return "", "", nil, err
	}
	callbacks, err := f.CallbackAPIKey.reveal("callback-api-key")
	if err == nil {
		sign, err = readSigner("sign", f.Sign, true)
	}
	return countersign.APIKey(own), countersign.APIKey(callbacks), sign, err
}

// played sets key, if no flag has it, to a file of --in. The API key comes from there too, unless a flag has it.
func (f *wireFlags) played(key *string, name string) error {
	if *key != "" {
		return nil
	}
	*key = filepath.Join(f.In, name)
	if _, err := os.Stat(*key); err != nil {
		return &hintedError{fmt.Errorf("--key is missing: %w", err), []string{
			"countersign keys new --api-key --out " + f.In +
				" makes a pair and an API key. Give the merchant public.b64 and api.key."}}
	}
	apiKey := filepath.Join(f.In, apiKeyFile)
	if _, err := os.Stat(apiKey); err == nil && f.APIKey == "" {
		f.APIKey = secret("@" + apiKey)
	}
	return nil
}

// serviceFlags are the flags of check and send as a service.
type serviceFlags struct {
	Key         string `help:"The service's part of the key. Without it that of --in is taken." placeholder:"FILE"`
	ResponseKey string `help:"Private key that opens answers, if it is another." placeholder:"FILE"`
	Ordered     bool   `help:"Play a service that knows the details of every withdrawal and does not need them in answers."`
	wireFlags
	AnswerKey string `name:"answer-key" help:"Public part of the merchant's signing key, by which every response must be signed; no secret, @FILE reads it. It needs --sign." placeholder:"KEY"`

	Timeout   time.Duration `help:"How long one exchange may take, as long as the service waits (its --exchange-timeout). 0: 15s, or 40s for another provider." default:"0s"`
	YesPublic bool          `env:"-" help:"Send to addresses outside this machine and private networks. Only to endpoints that are yours."`
}

func (f *serviceFlags) validate() error {
	switch {
	case f.OAEP && f.Key == "":
		return errors.New("--oaep needs --key, the merchant's public key")
	case f.OAEP && f.ResponseKey == "":
		return errors.New("--oaep needs --response-key, the private key that opens answers")
	case f.AnswerKey != "" && f.Sign == "":
		return errors.New("--answer-key needs --sign: a merchant signs only what answers a signed request")
	case f.Timeout < 0:
		return errors.New("--timeout must not be below 0")
	}
	return nil
}

// asService returns the configuration that the flags define.
func (f *serviceFlags) asService(std streams) (conformance.Config, error) {
	err := f.played(&f.Key, privateFile)
	if err != nil {
		return conformance.Config{}, err
	}
	config := conformance.Config{Other: f.Provider == "other", Ordered: f.Ordered, AllowPublic: f.YesPublic,
		Timeout: f.Timeout, APIKeyHeader: f.APIKeyHeader}
	if config.APIKey, config.CallbackAPIKey, config.Sign, err = f.keys(); err != nil {
		return config, err
	}
	if f.ResponseKey != "" {
		if config.ResponseKey, err = readKey(f.ResponseKey, std); err != nil {
			return config, err
		}
	}
	if config.AnswerKey, err = readSigner("answer-key", f.AnswerKey, false); err != nil {
		return config, err
	}
	config.Padding, config.ResponsePadding = paddingOf(f.OAEP), paddingOf(f.ResponseOAEP)
	if config.Key, err = readKey(f.Key, std); err == nil && !config.Key.HasPrivate() && config.ResponseKey == nil {
		err = &hintedError{errors.New("--key has no private part"), []string{
			"the service's part is wanted here, private.pem as a rule; the endpoint holds the public part.",
			"in the schemes where the merchant makes the pair, give its public key here and your own private key with --response-key.",
		}}
	}
	return config, err
}

// readKey reads a key from a file, or from standard input if path is "-". It warns of a private part in a file that
// others may read or write.
func readKey(path string, std streams) (*envelope.Key, error) {
	key, err := readSecretKey(path, std)
	if exposed := new(daemon.ExposedError); key != nil && errors.As(err, &exposed) {
		if err = nil; key.HasPrivate() {
			fmt.Fprintf(std.err, "countersign: warning: %v\n", exposed)
		}
	}
	return key, err
}

// readSecretKey is readKey for a daemon, for which both parts are secret (PROTOCOL.md, Keys): of a file that others may
// read or write it returns the key with an *daemon.ExposedError.
func readSecretKey(path string, std streams) (key *envelope.Key, err error) {
	var data []byte
	var exposed error
	if path == "-" {
		data, err = readAll(std.in, maxSecret, "key")
	} else if data, exposed = daemon.ReadSecret(path, maxSecret); daemon.AllowExposed(exposed) != nil {
		err = fmt.Errorf("reading the key: %w", exposed)
	}
	if err != nil {
		return nil, err
	}
	if key, err = envelope.ParseKey(data); err != nil {
		return nil, fmt.Errorf("reading the key from %s: %w", path, err)
	}
	return key, exposed
}

func paddingOf(oaep bool) envelope.Padding {
	if oaep {
		return envelope.OAEP
	}
	return envelope.PKCS1v15
}

// textOrFile returns the value of a flag that is not secret. @FILE reads it from a file.
func textOrFile(flag, value string) (string, error) {
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return value, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// readSigner reads an Ed25519 key: the pair of the end that is played from a file, or the public part of the other end,
// which @FILE reads from a file. Without a value it returns nil.
func readSigner(flag, value string, own bool) (*envelope.SigningKey, error) {
	if value == "" {
		return nil, nil
	}
	if own {
		value = "@" + value
	}
	text, err := textOrFile(flag, value)
	if err != nil {
		return nil, err
	}
	k, err := envelope.ParseSigningKey([]byte(text))
	switch {
	case err != nil:
	case own && !k.HasPrivate():
		err = errors.New("that is a public part: give the pair of this end; openssl genpkey -algorithm ed25519 makes one")
	case !own && k.HasPrivate():
		err = errors.New("that is a private key: give the public part of the other end")
	}
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return k, nil
}

// The files of the secrets that the two ends share, as keys new makes them.
const (
	privateFile = "private.pem" // the provider's, which hands over the others
	publicFile  = "public.b64"
	apiKeyFile  = "api.key"
)

// faultsHelp returns the end of a long help: what each fault does, a line each.
func faultsHelp[F interface {
	~string
	About() string
}](faults []F) string {
	var b strings.Builder
	b.WriteString("\n\nWhat --fault does:\n")
	for _, f := range faults {
		fmt.Fprintf(&b, "\n    %-15s  %s", string(f), f.About())
	}
	return b.String()
}
