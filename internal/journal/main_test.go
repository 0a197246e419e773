package journal_test

import (
	"os"
	"testing"

	"countersign/internal/lab/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }
