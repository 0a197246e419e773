package sim

import (
	"slices"
	"testing"
)

// shrink returns a part of list that still fails and of which no single one can be left out. It
// leaves out large parts first (Zeller's delta debugging).
func shrink(list []int, fails func([]int) bool) []int {
	for parts := 2; len(list) > 0; {
		size := (len(list) + parts - 1) / parts
		smaller := false
		for at := 0; at < len(list); at += size {
			rest := slices.Concat(list[:at], list[min(at+size, len(list)):])
			if fails(rest) {
				list, parts, smaller = rest, max(parts-1, 2), true
				break
			}
		}
		if smaller {
			continue
		}
		if size == 1 {
			break
		}
		parts = min(2*parts, len(list))
	}
	return list
}

func TestShrink(t *testing.T) {
	all := make([]int, 40)
	for i := range all {
		all[i] = i
	}
	for _, needed := range [][]int{{}, {0}, {39}, {3, 7}, {0, 20, 21, 39}} {
		tried := 0
		got := shrink(all, func(list []int) bool {
			tried++
			return !slices.ContainsFunc(needed, func(n int) bool { return !slices.Contains(list, n) })
		})
		if !slices.Equal(got, needed) || tried > 150 {
			t.Errorf("%v became %v after %d runs", needed, got, tried)
		}
	}
}
