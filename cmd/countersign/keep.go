package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"countersign/internal/daemon"
)

// What an API shows only once is kept in files (--out) that only their owner can read.

// keptFile is a file of --out. The printed answer has the file's name instead of the member that the file contains.
type keptFile struct {
	name   string // in the directory --out; empty: --out is the file
	member string // of the answer, or of the request
	whole  bool   // it has the whole answer
}

// The files of --out, for withdrawals release and merchants add.
const (
	noteFile        = "note.txt"
	answerFile      = "answer.json"
	permitFile      = "permit.json"
	serviceKeyFile  = "service.b64"
	responseKeyFile = "response.b64"
	callbackKeyFile = "callback-api.key"

	handoverText = "Directory for what is the merchant's alone: service.b64 opens requests, and seals answers where there is no response.b64; its responses carry api.key, requests carry callback-api.key. Made if missing; nothing in it is overwritten."
)

var (
	handover = []keptFile{{name: serviceKeyFile, member: "publicKey"},
		{name: responseKeyFile, member: "responsePublicKey"}, {name: apiKeyFile, member: "apiKey"},
		{name: callbackKeyFile, member: "callbackApiKey"}}
	// keptFiles are the files of each operation.
	keptFiles = map[string][]keptFile{
		"createMerchant": handover,
		"stageRotation":  handover,
		"releaseWithdrawal": {{name: noteFile, member: "note"}, {name: answerFile, member: "answer"},
			{name: permitFile, member: "permit", whole: true}},
		"createToken": {{member: "token"}},
	}
)

// prepare returns the files for an operation, or nil if out is empty. It refuses a directory that already has one of
// them or cannot be made: what is shown only once must not be made if it cannot be kept.
func prepare(out, operation string) ([]keptFile, error) {
	if out == "" {
		return nil, nil
	}
	if keptFiles[operation] == nil {
		return nil, fmt.Errorf("--out: %s makes nothing that could be kept", operation)
	}
	var files []keptFile
	for _, f := range keptFiles[operation] {
		f.name = filepath.Join(out, f.name)
		switch _, err := os.Lstat(f.name); {
		case err == nil:
			return nil, otherDirectory(fmt.Errorf("%s exists and is not overwritten", f.name))
		case !errors.Is(err, fs.ErrNotExist):
			return nil, otherDirectory(err)
		}
		files = append(files, f)
	}
	if err := os.MkdirAll(filepath.Dir(files[0].name), 0o700); err != nil {
		return nil, otherDirectory(err)
	}
	return files, nil
}

const releasedBefore = "this claim was given the permit before; find out whether the funds have moved before you execute"

// keep writes the files of an answer and prints it with their names instead of their contents. It prints the whole
// answer if there are no files or they cannot be written.
func keep(std streams, files []keptFile, request map[string]any, answer json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(answer, &members); err != nil {
		return err
	}
	if string(members["duplicate"]) == "true" {
		fmt.Fprintln(std.err, "countersign: warning:", releasedBefore)
	}
	var list []daemon.NewFile
	for _, f := range files {
		text, _ := request[f.member].(string)
		if raw, ok := members[f.member]; ok && json.Unmarshal(raw, &text) != nil {
			text = string(raw) // an object
		}
		if f.whole {
			text = string(answer)
		}
		if text != "" {
			list = append(list, daemon.NewFile{Name: f.name, Data: []byte(strings.TrimSuffix(text, "\n") + "\n")})
			members[f.member], _ = json.Marshal("@" + f.name)
		}
	}
	if err := daemon.CreateFiles("", list); err != nil {
		return errors.Join(printJSON(std.out, answer, "  "),
			&hintedError{fmt.Errorf("it was made and could not be written: %w", err),
				[]string{"keep what was printed: a key or a token is not shown again."}})
	}
	if list == nil {
		return printJSON(std.out, answer, "  ")
	}
	return printJSON(std.out, members, "  ")
}
