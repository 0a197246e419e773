package main

// witnessFlags name who cosigns the heads of the audit log.
type witnessFlags struct {
	Witness []string `help:"URL of a witness that cosigns every head of the audit log (C2SP tlog-witness), without /add-checkpoint, then a space and the verifier key that it has published. May be repeated." sep:"none" placeholder:"'URL KEY'"`
}
