package journal_test

import (
	"os"
	"testing"

	"countersign/internal/lab/dbtest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(closingChild); url != "" {
		closeForEver(url)
		return
	}
	os.Exit(dbtest.Run(m))
}
