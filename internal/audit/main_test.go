package audit_test

import (
	"os"
	"testing"

	"countersign/internal/db/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }
