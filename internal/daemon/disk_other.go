//go:build !linux && !darwin && !freebsd

package daemon

import "errors"

func diskFree(string) (float64, error) { return 0, errors.ErrUnsupported }

func writable(string) error { return nil }
