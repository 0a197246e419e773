package console_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"countersign/client"
	"countersign/internal/journal"
)

// TestServicePasskeys: an admin registers two passkeys and removes one; the last one cannot
// go. An approver signs in with one and signs a change; the audit log has both.
func TestServicePasskeys(t *testing.T) {
	browser := chromium(t)
	t.Parallel()
	base, first := node(t, nil)
	base = strings.Replace(base, "127.0.0.1", "localhost", 1) // passkeys need a name
	admin, ctx := serviceAPI(t, base, first), t.Context()
	if _, err := admin.CreateMerchant(ctx, client.NewMerchant{
		ID:               "shop",
		Key:              &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{Name: "Shop", NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"},
	}); err != nil {
		t.Fatal(err)
	}
	b := newTab(t, browser, base)
	laptop := b.authenticator()
	b.signIn(first)
	b.open("/console/passkeys")
	b.shows("You have none.")
	b.fill("#name", "laptop")
	b.submit("#new-passkey button", "Registered.")
	b.shows("the last passkey of an admin: register another first")
	if got := get[int](b, `document.querySelectorAll("form[action$='/remove']").length`); got != 0 {
		t.Errorf("%d forms remove the last passkey", got)
	}
	// The laptop signs that another is added. Then the person takes the other device.
	b.open("/console/passkeys")
	get[bool](b, `(() => {
		const create = navigator.credentials.create.bind(navigator.credentials);
		navigator.credentials.create = async o => {
			window.signed = true;
			while (!window.other) await new Promise(go => setTimeout(go, 20));
			return create(o);
		};
		return true;
	})()`)
	b.fill("#name", "key ring")
	b.press("#new-passkey button")
	b.await(`!!window.signed`)
	if _, err := chromedp.Call(b.ctx, webauthn.RemoveVirtualAuthenticator, webauthn.RemoveVirtualAuthenticatorParams{AuthenticatorID: laptop}); err != nil {
		t.Fatal(err)
	}
	b.authenticator()
	get[bool](b, `(window.other = true)`)
	b.become(`document.body.innerText.includes("key ring")`)
	b.shows("Registered.", "laptop", "key ring")
	b.accessible("two passkeys")
	b.picture("service-passkeys-wide")
	b.press(`tr:has(td:first-child bdi):first-child details.act > summary`)
	b.submit("td details[open] button", "Removed.")
	left, err := admin.Passkeys(ctx)
	if err != nil || len(left) != 1 || left[0].Name != "key ring" {
		t.Fatalf("%+v, %v", left, err)
	}

	// A change waits for an approver, who has a passkey.
	person := func(name string, role client.Role) client.CreatedToken {
		t.Helper()
		made, err := admin.CreateToken(ctx, client.NewToken{Name: name, Role: role})
		if err != nil || made.Change != nil {
			t.Fatalf("%+v, %v", made, err)
		}
		return made
	}
	olga, ann := person("Olga", client.RoleOperator), person("Ann", client.RoleApprover)
	a := newTab(t, browser, base)
	a.authenticator()
	a.signIn(ann.Secret)
	a.open("/console/passkeys")
	a.fill("#name", "telephone")
	a.submit("#new-passkey button", "Registered.")
	a.press(".me button")
	a.become(`location.pathname === "/console/signin" && document.readyState === "complete"`)
	a.submit("#passkey-signin button", "Ann")
	waits, err := serviceAPI(t, base, olga.Secret).UpdateMerchant(ctx, "shop", client.MerchantPatch{MerchantSettings: client.MerchantSettings{NotifyURL: "http://127.0.0.1:1/signed"}})
	if err != nil || waits.Change == nil {
		t.Fatalf("%+v, %v", waits, err)
	}
	if _, err := serviceAPI(t, base, ann.Secret).ApproveChange(ctx, waits.Change.ID); !errors.Is(err, client.ErrForbidden) || !strings.Contains(err.Error(), "Do it in the console") {
		t.Errorf("the token alone: %v", err)
	}
	a.open("/console/changes/" + waits.Change.ID)
	a.shows("http://127.0.0.1:1/signed", "Approve exactly this with a passkey")
	a.accessible("a change to be signed")
	a.submit("form[action$='/approve'] button", "Approved:")
	if m, err := admin.Merchant(ctx, "shop"); err != nil || m.NotifyURL != "http://127.0.0.1:1/signed" {
		t.Errorf("%+v, %v", m, err)
	}
	signed, signedIn := false, false
	log, err := admin.Audit(ctx, client.FeedOptions{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range log.Entries {
		told, err := journal.Read(e.Record)
		if err != nil {
			t.Fatal(err)
		}
		if told.Passkey != nil && strings.HasPrefix(told.Kind, "change.") {
			st, err := told.Passkey.Check()
			signed = err == nil && st.ID == waits.Change.ID
		}
		signedIn = signedIn || told.Kind == "passkey.signedin" && strings.Contains(string(e.Record), `"name":"Ann"`) && strings.Contains(string(e.Record), `"name":"telephone"`)
	}
	if !signed || !signedIn {
		t.Errorf("the audit log has the signed change: %v, the sign-in: %v", signed, signedIn)
	}
}
