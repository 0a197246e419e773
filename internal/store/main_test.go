package store

import (
	"os"
	"testing"

	"countersign/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Run(m)) }
