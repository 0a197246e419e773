package conformance

// Unseen is something that a run did not look at, because a setting was not given.
type Unseen struct {
	What  string `json:"what"`
	Give  string `json:"give"`  // the flag of countersign check that lets it look
	Cases int    `json:"cases"` // how many were skipped for it, or saw responses alone
}

// needAmounts is met by an Effects that tells the amounts of credits.
const needAmounts Need = "the amounts of credits"

// settings are the needs that a setting meets, in the order in which a summary has them.
// The other needs depend on the service: cases that lack one do not apply.
var settings = []struct {
	need Need
	Unseen
}{
	{NeedOrder, Unseen{What: "withdrawals that the endpoint knows", Give: "--order FILE"}},
	{NeedLongOrder, Unseen{What: "a withdrawal of over 17 digits", Give: "--order FILE with such an amount"}},
	{NeedCallbackKey, Unseen{What: "the X-API-KEY of requests", Give: "--callback-api-key VALUE"}},
	{NeedEffects, Unseen{What: "credits", Give: "--effects COMMAND"}},
	{needAmounts, Unseen{What: "the amounts of credits", Give: "--effects COMMAND that prints the amount behind the trackingId"}},
	{NeedRestart, Unseen{What: "kills", Give: "--restart COMMAND"}},
}

// lacking returns the first need of c that is not met, or "". It notes every setting without
// which c is not run, if c applies at all.
func (s *session) lacking(c Case) Need {
	var first Need
	var lacks []Need
	for _, need := range c.Needs {
		if s.has(need) {
			continue
		}
		if !settable(need) {
			return need
		}
		if first == "" {
			first = need
		}
		lacks = append(lacks, need)
	}
	for _, need := range lacks {
		if need != NeedLongOrder || s.cfg.Order != nil {
			s.unseen(need)
		}
	}
	return first
}

func settable(n Need) bool {
	for _, s := range settings {
		if s.need == n {
			return true
		}
	}
	return false
}

// unseen notes that this case could not look at what n is about.
func (s *session) unseen(n Need) { s.blind[n] = true }

// notLookedAt counts the cases of a run by what they could not look at.
func notLookedAt(cases map[Need]int) []Unseen {
	var all []Unseen
	for _, s := range settings {
		if u := s.Unseen; cases[s.need] > 0 {
			u.Cases = cases[s.need]
			all = append(all, u)
		}
	}
	return all
}
