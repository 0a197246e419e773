package console

import (
	"net/http"
	"net/url"
	"strings"

	"countersign/client"
)

// searchPage shows what the search box in the header found.
type searchPage struct {
	Text  string
	Found []client.Found
	More  bool // there may be more
}

// search searches everything for a text. A single result is shown at once.
func (v *visit) search() error {
	page := searchPage{Text: v.query("q")}
	if page.Text == "" {
		return v.render("search", "Search", page)
	}
	result, err := read[client.List[client.Found]](v, "/v1/search", struct{ Q string }{page.Text})
	if err != nil {
		return err
	}
	page.Found = result.Items
	if len(page.Found) == 1 {
		http.Redirect(v.w, v.r, frame{}.PathOf(page.Found[0]), http.StatusSeeOther)
		return nil
	}
	page.More = len(page.Found) == client.MostFound
	return v.render("search", "Search", page)
}

// foundPages are the paths of the pages of each kind.
var foundPages = map[client.FoundKind]string{
	client.FoundMerchant: "/console/merchants/", client.FoundCallback: "/console/callbacks/",
	client.FoundWithdrawal: "/console/withdrawals/",
	client.FoundDeposit:    "/console/deposits/", client.FoundOrder: "/console/orders/",
	client.FoundAddress: "/console/addresses/",
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
