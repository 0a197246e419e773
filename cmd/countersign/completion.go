package main

import (
	"fmt"
)

// completionCmd prints what a shell reads to complete command lines. The shell asks
// the program itself, so nothing drifts.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish. For this session: source <(countersign completion bash); in fish: countersign completion fish | source."`
}

// completeWord is the hidden subcommand that the shells ask with the words before
// the one to complete.
const completeWord = "__complete"

const bashCompletion = `_countersign() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$(countersign ` + completeWord + ` "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _countersign countersign
`

func (c *completionCmd) Run(std streams) error {
	switch c.Shell {
	case "zsh":
		fmt.Fprint(std.out, "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n", bashCompletion)
	case "fish":
		fmt.Fprintf(std.out, "complete -c countersign -a '(set -l w (commandline -opc); countersign %s $w[2..] 2>/dev/null)'\n", completeWord)
	default:
		fmt.Fprint(std.out, bashCompletion)
	}
	return nil
}
