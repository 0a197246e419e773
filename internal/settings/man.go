package settings

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Man returns the manual page of app in roff, made of the help. date is the day of the build,
// or empty.
func Man(app *kong.Application, version, date string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH COUNTERSIGN 1 %q %q\n.ad l\n.SH NAME\ncountersign \\- %s\n", roff(date), "countersign "+roff(version), roff(strings.TrimSuffix(app.Help, ".")))
	b.WriteString(".SH SYNOPSIS\n.B countersign\n\\fICOMMAND\\fR [\\fIFLAGS\\fR]\n.SH DESCRIPTION\n" +
		"Every flag that is not \\-\\-help or \\-\\-version is a variable of the environment too: COUNTERSIGN_ and its name.\n" +
		"What the commands of the API do at the service they do at the gateway with \\-\\-gateway.\n.SH OPTIONS\n")
	options(&b, app.Node)
	b.WriteString(".SH COMMANDS\n")
	commands(&b, app.Node)
	b.WriteString(".SH FILES\n.TP\n.I /etc/countersign/countersign.toml\nSettings of the daemons, as the package installs it.\n" +
		".TP\n.I /var/lib/countersign\n.TQ\n.I /var/lib/countersign\\-gateway\nData of the service and of the gateway.\n" +
		".SH EXIT STATUS\n0 if all was done, 1 if something failed, 2 if the command line is wrong.\n")
	return b.String()
}

// commands writes the subcommands below n that can be called, with their flags.
func commands(b *strings.Builder, n *kong.Node) {
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		if len(child.Children) == 0 {
			words := strings.TrimPrefix(child.Path(), "countersign ")
			for _, p := range child.Positional {
				words += " " + p.Summary()
			}
			fmt.Fprintf(b, ".SS %s\n%s\n", roff(words), roff(child.Help))
			for _, p := range child.Positional {
				if p.Help != "" {
					fmt.Fprintf(b, ".TP\n.I %s\n%s\n", roff(p.Summary()), roff(p.Help))
				}
			}
			options(b, child)
		}
		commands(b, child)
	}
}

// options writes the flags of n itself.
func options(b *strings.Builder, n *kong.Node) {
	for _, f := range n.Flags {
		if f.Hidden || f.Name == "help" && n.Parent != nil {
			continue
		}
		value := ""
		if !f.IsBool() {
			value = "=\\fI" + roff(f.FormatPlaceHolder()) + "\\fR"
		}
		fmt.Fprintf(b, ".TP\n\\fB\\-\\-%s\\fR%s\n%s\n", roff(f.Name), value, roff(f.Help))
	}
}

// roff escapes text: a line that begins with a dot or an apostrophe would be a request, and a
// hyphen would be set as one that nobody can search for.
func roff(text string) string {
	text = strings.NewReplacer("\\", "\\e", "-", "\\-", "\n", " ", `"`, "\\(dq").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = "\\&" + text
	}
	return text
}
