package dispatch

import "testing"

// However many merchants are slow, and however much waits for them: none has more than a quarter of a lane, and there
// is a place for one that has nothing.
func TestNoMerchantFillsALane(t *testing.T) {
	for _, width := range []int{1, 7, 8, 16, 100, 5000} {
		for _, slow := range []int{1, 2, 5, width/9 + 1} {
			has, unsent := make([]int, slow), 0
			for range 30 {
				for m := range has { // each wants all that it may have
					free := width
					for _, n := range has {
						free -= n
					}
					most, share := placesOf(width, free, claimBatch, claimBatch-unsent)
					n := max(0, min(share-has[m], most))
					has[m] += n
					unsent += n
					if has[m] > max(1, width/4) || unsent > claimBatch {
						t.Fatalf("one of %d has %d of %d places, %d unsent", slow, has[m], width, unsent)
					}
					most, share = placesOf(width, free-n, claimBatch, claimBatch-unsent)
					if width >= 8 && slow <= width/9 && unsent < claimBatch && (most < 1 || share < 1) {
						t.Fatalf("nothing for a newcomer beside %d of %d places", slow, width)
					}
				}
				unsent = 0 // all are sent
			}
		}
	}
}
