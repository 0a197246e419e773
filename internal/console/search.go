package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"countersign/client"
)

// searchPage is what the box of the header has found.
type searchPage struct {
	Text  string
	Found []client.Found
	Most  int // as much as this was found: there may be more
	Lists []listLink
}

// listLink leads to a list of what has the text in one member.
type listLink struct{ Name, Path string }

// search looks a text up everywhere. What is found alone is shown at once.
func (v *visit) search() error {
	page := searchPage{Text: v.query("q")}
	if page.Text == "" {
		return v.render("search", "Search", page)
	}
	result, err := v.api.Search(v.r.Context(), page.Text)
	if err != nil {
		return err
	}
	page.Found = result.Found
	if len(page.Found) == 1 {
		http.Redirect(v.w, v.r, frame{}.PathOf(page.Found[0]), http.StatusSeeOther)
		return nil
	}
	if len(page.Found) == client.MostFound {
		page.Most, page.Lists = client.MostFound, v.listsOf(page.Text, result.Found)
	}
	return v.render("search", "Search", page)
}

// foundPages are where the console has each kind.
var foundPages = map[client.FoundKind]string{
	client.FoundMerchant: "/console/merchants/", client.FoundCallback: "/console/callbacks/", client.FoundWithdrawal: "/console/withdrawals/",
	client.FoundDeposit: "/console/deposits/", client.FoundOrder: "/console/orders/", client.FoundAddress: "/console/addresses/",
	client.FoundRefused: "/console/refused/",
}

// Finds returns what to search for of an example of an alarm: its id. Empty: it is no id, or the session's token may not search.
func (f frame) Finds(example string) string {
	id, rest, _ := strings.Cut(example, " ")
	if !f.May("search") || rest != "" && rest[0] != '(' && !strings.Contains(id, ".") { // "amount: …" is none
		return ""
	}
	return id
}

// PathOf returns the page of what was found.
func (frame) PathOf(f client.Found) string { return foundPages[f.Kind] + url.PathEscape(f.ID) }

// listsOf returns the lists that have all of what was found: those with a field for the member that has it.
func (v *visit) listsOf(text string, found []client.Found) (links []listLink) {
	for _, part := range v.c.end.sections {
		for _, l := range part.lists {
			for _, f := range found {
				by := string(f.Matched)
				link := listLink{string(f.Kind) + "s by " + by, l.path() + "?" + url.Values{by: {text}}.Encode()}
				if foundPages[f.Kind] == l.path()+"/" && l.searches(by) && !slices.Contains(links, link) {
					links = append(links, link)
				}
			}
		}
	}
	return links
}
