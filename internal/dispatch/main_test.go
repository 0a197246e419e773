package dispatch

import (
	"testing"

	"go.uber.org/goleak"

	"countersign/internal/lab/dbtest"
)

// withDatabases stops the databases of the tests before goroutines are counted.
type withDatabases struct{ m *testing.M }

func (w withDatabases) Run() int { return dbtest.Run(w.m) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(withDatabases{m}) }
