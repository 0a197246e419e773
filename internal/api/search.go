package api

import (
	"cmp"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/db"
)

// searchQuery is the text that people search for.
type searchQuery struct {
	Q string `query:"q" required:"true" minLength:"1" maxLength:"1024" doc:"a whole identifier, user, address or transaction, 1 to 1,024 characters"`
}

// search answers /v1/search. It removes duplicates, puts exact ids first and then the newest, and limits the number.
func (o Common) search(c *Call, q searchQuery, _ None) (client.SearchResult, error) {
	result, text := client.SearchResult{Found: []client.Found{}}, strings.TrimSpace(q.Q)
	if text == "" || db.CheckText("", text) != nil {
		return result, nil
	}
	found, err := o.Search(c, text)
	if err != nil {
		return result, err
	}
	for _, f := range found {
		if !slices.ContainsFunc(result.Found, func(g client.Found) bool { return f.Kind == g.Kind && f.ID == g.ID }) {
			result.Found = append(result.Found, f)
		}
	}
	slices.SortStableFunc(result.Found, func(a, b client.Found) int {
		return cmp.Or(cmp.Compare(inexact(a), inexact(b)), cmp.Compare(b.At, a.At))
	})
	result.Found = result.Found[:min(len(result.Found), client.MostFound)]
	return result, nil
}

// inexact returns 0 for a thing whose id is the text, which sorts first, and 1 for all others.
func inexact(f client.Found) int {
	if f.Matched == client.MatchedID {
		return 0
	}
	return 1
}
