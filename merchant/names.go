package merchant

import (
	"fmt"
	"slices"
	"strings"
)

// names are the words of the values of a setting, which count from 0.
type names []string

func (n names) of(kind string, v int) string {
	if v < 0 || v >= len(n) {
		return fmt.Sprintf("%s(%d)", kind, v)
	}
	return n[v]
}

// parse inverts of. With an error it returns the zero value.
func (n names) parse(what, s string) (int, error) {
	if v := slices.Index(n, s); v >= 0 {
		return v, nil
	}
	return 0, fmt.Errorf("the %s must be one of %s", what, strings.Join(n, ", "))
}
