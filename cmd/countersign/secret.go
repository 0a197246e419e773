package main

import (
	"fmt"
	"strings"

	"countersign/internal/daemon"
)

// secretText is a flag that holds a secret, or @FILE to read it from there. It
// does not print.
type secretText string

func (s secretText) String() string { return "[secret]" }

// reveal gives the secret, read from its file where it names one.
func (s secretText) reveal(name string) (string, error) {
	path, isFile := strings.CutPrefix(string(s), "@")
	if !isFile {
		return string(s), nil
	}
	b, err := daemon.ReadSecret(path, maxKeyFile)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", name, err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" || len(text) > 4096 {
		return "", fmt.Errorf("--%s: %s does not hold one secret", name, path)
	}
	return text, nil
}
