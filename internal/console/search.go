package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"countersign/client"
)

// searchPage shows what the search box in the header found.
type searchPage struct {
	Text  string
	Found []client.Found
	Most  int // as much as this was found: there may be more
	Lists []listLink
}

// listLink is a link to the list of entries with the text in one member.
type listLink struct{ Name, Path string }

// search searches everything for a text. A single result is shown at once.
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

// foundPages are the paths of the pages of each kind.
var foundPages = map[client.FoundKind]string{
	client.FoundMerchant: "/console/merchants/", client.FoundCallback: "/console/callbacks/", client.FoundWithdrawal: "/console/withdrawals/",
	client.FoundDeposit: "/console/deposits/", client.FoundOrder: "/console/orders/", client.FoundAddress: "/console/addresses/",
	client.FoundRefused: "/console/refused/",
}

// Finds returns the id in an example of an alarm, as a text to search for. It is "" if the example is no id or the
// session's token may not search.
func (f frame) Finds(example string) string {
	id, rest, _ := strings.Cut(example, " ")
	if !f.May("search") || rest != "" && rest[0] != '(' && !strings.Contains(id, ".") { // "amount: …" is none
		return ""
	}
	return id
}

// PathOf returns the page of a search result.
func (frame) PathOf(f client.Found) string { return foundPages[f.Kind] + url.PathEscape(f.ID) }

// listsOf returns the lists that show all that was found: those with a field for the matching member.
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
