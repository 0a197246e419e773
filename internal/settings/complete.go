package settings

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// CompleteWord is the hidden subcommand that the shells ask with the words before the one to
// complete.
const CompleteWord = "__complete"

const bashCompletion = `_countersign() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$(countersign ` + CompleteWord + ` "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _countersign countersign
`

// Completion returns what bash, zsh or fish reads to complete command lines. The shell asks the
// program itself, so nothing drifts.
func Completion(shell string) string {
	switch shell {
	case "zsh":
		return "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n" + bashCompletion
	case "fish":
		return fmt.Sprintf("complete -c countersign -a '(set -l w (commandline -opc); countersign %s $w[2..] 2>/dev/null)'\n", CompleteWord)
	}
	return bashCompletion
}

// Complete prints what may come after words, one to a line: subcommands, the values
// of a flag that has a list of them, or flags.
func Complete(w io.Writer, app *kong.Node, words []string) {
	node := app
	var flag *kong.Flag // that awaits its value
	for _, word := range words {
		switch {
		case flag != nil:
			flag = nil
		case strings.HasPrefix(word, "--"):
			if f := flagOf(node, word[2:]); f != nil && !f.IsBool() {
				flag = f
			}
		default:
			for _, child := range node.Children {
				if child.Name == word {
					node = child
					break
				}
			}
		}
	}
	switch {
	case flag != nil:
		for _, v := range flag.EnumSlice() {
			if v != "" {
				fmt.Fprintln(w, v)
			}
		}
	case len(node.Children) > 0:
		for _, child := range node.Children {
			fmt.Fprintln(w, child.Name)
		}
	default:
		for _, p := range node.Positional {
			for _, v := range p.EnumSlice() {
				if v != "" {
					fmt.Fprintln(w, v)
				}
			}
		}
		for _, group := range node.AllFlags(true) {
			for _, f := range group {
				fmt.Fprintln(w, "--"+f.Name)
			}
		}
	}
}

func flagOf(node *kong.Node, name string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if f.Name == name {
				return f
			}
		}
	}
	return nil
}
