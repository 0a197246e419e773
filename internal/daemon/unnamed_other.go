//go:build !linux

package daemon

import (
	"errors"
	"io/fs"
	"os"
)

func openUnnamed(string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

func linkUnnamed(*os.File, string) error { return errors.ErrUnsupported }
