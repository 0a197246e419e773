package main

import (
	"errors"
	"fmt"

	"countersign/client"
	"countersign/internal/daemon"
)

func makeHandover(dir string) error {
	err := daemon.PrepareHandover(dir)
	if u := (*daemon.HandoverError)(nil); errors.As(err, &u) {
		return otherDirectory(err)
	}
	return err
}

// handOver writes what a new merchant needs to dir and says what each file is for. What
// cannot be written is printed: the service does not show it again.
func handOver(std streams, dir string, made client.CreatedMerchant) error {
	about, err := daemon.WriteHandover(dir, made)
	if err != nil {
		if err := printJSON(std.out, made, "  "); err != nil {
			return fmt.Errorf("merchant %s was made, and its keys are lost: make others with countersign merchants keys: %w", made.ID, err)
		}
		return &hintedError{fmt.Errorf("merchant %s was made, and its keys could not be written: %w", made.ID, err),
			[]string{"keep what was printed: the service does not show it again."}}
	}
	for _, w := range made.Warnings {
		fmt.Fprintf(std.err, "countersign: warning: %s\n", w)
	}
	fmt.Fprintf(std.out, "merchant %s was made; in %s:\n%s%-13s  %s\n", made.ID, dir, about, "fingerprint", made.Fingerprint)
	return nil
}
