package console_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"countersign/client"
	"countersign/internal/journal"
)

// authenticator gives the tab a virtual device with passkeys, which agrees to everything.
func (b *tab) authenticator() webauthn.AuthenticatorID {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		b.t.Fatal(err)
	}
	made, err := chromedp.Call(b.ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true,
		HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true}})
	if err != nil {
		b.t.Fatal(err)
	}
	return made.AuthenticatorID
}

// submit clicks what asks the device, and waits for the page that follows.
func (b *tab) submit(selector, shows string) {
	b.t.Helper()
	b.press(selector)
	b.become(`document.body.innerText.includes("` + shows + `")`)
}

// become is await across pages, on whose way there is no document.
func (b *tab) become(expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		cancel()
		if err == nil && is {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s does not come true: %v\n%s", expression, err, b.page())
		}
	}
}

// TestPasskeys registers a passkey, signs in with it and approves an order with it, and
// tries to get past it with the token alone.
func TestPasskeys(t *testing.T) {
	browser := chromium(t)
	t.Parallel()
	ctx, s := t.Context(), newShop(t)
	token := s.token(client.RoleApprover)
	api := s.as(token.Secret)
	b := newTab(t, browser, s.base)
	b.authenticator()
	b.signIn(token.Secret)
	b.open("/console/passkeys")
	b.shows("You have none.")
	b.accessible("passkeys")
	b.fill("#name", "laptop")
	b.submit("#new-passkey button", "Registered.")
	b.shows("laptop", "localhost")
	b.size(390, true)
	b.accessible("passkeys, narrow and dark")
	b.size(1280, false)
	if keys, err := api.Passkeys(ctx); err != nil || len(keys) != 1 || keys[0].Name != "laptop" {
		t.Fatalf("%+v, %v", keys, err)
	}

	// Signed in with it, the person has the token's rights.
	b.do(chromedp.Click(chromedp.CSS(".me button")))
	b.become(`location.pathname === "/console/signin" && document.readyState === "complete"`)
	b.accessible("sign-in with a passkey")
	b.submit("#passkey-signin button", "Awaiting a person")
	b.shows("the approver")

	// The token alone does not approve.
	o := s.held("signed-1")
	_, err := api.ApproveOrder(ctx, o.CallBackID, "stolen")
	if !errors.Is(err, client.ErrForbidden) || !strings.Contains(err.Error(), "must be signed with one of them") {
		t.Fatalf("the token alone: %v", err)
	}
	if err := api.RemovePasskey(ctx, "any", nil); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("removing without a signature: %v", err)
	}
	// A signature of something else neither.
	other := s.held("signed-2")
	b.open("/console/orders/" + other.CallBackID)
	signed := get[string](b, `(async () => { const f = document.querySelector("form[data-signed]"), x = t => Uint8Array.from(atob(t.replace(/-/g, "+").replace(/_/g, "/")), c => c.charCodeAt(0));
		const c = await navigator.credentials.get({publicKey: {challenge: x(f.dataset.signed), rpId: f.dataset.host, userVerification: "required"}});
		return JSON.stringify({text: f.elements["signed-text"].value, credential: c.toJSON()}); })()`)
	assertion := assertionOf(t, signed)
	if _, err := api.ApproveOrderSigned(ctx, o.CallBackID, "", &assertion); !errors.Is(err, client.ErrForbidden) || !strings.Contains(err.Error(), "not what would be done now") {
		t.Errorf("signed for another order: %v", err)
	}
	forged := assertion
	forged.Text = strings.Replace(assertion.Text, other.CallBackID, o.CallBackID, 1)
	if _, err := api.ApproveOrderSigned(ctx, o.CallBackID, "", &forged); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("a statement that was changed: %v", err)
	}

	// The person approves what the page shows.
	b.open("/console/orders/" + o.CallBackID)
	b.press("details.act > summary")
	b.fill("#approve-reason", "checked by telephone")
	b.submit("details[open] button.main", "Approved.")
	got, err := api.Order(ctx, o.CallBackID)
	if err != nil || got.State != client.OrderApproved || got.DecidedBy != token.ID || got.Reason != "checked by telephone" {
		t.Fatalf("%+v, %v", got, err)
	}

	// The audit log keeps the signature, and its proof needs nothing but the file.
	s.verified(ctx, o.CallBackID)

	// The passkey goes, signed by itself; sessions of it end, and the token does alone again.
	b.open("/console/passkeys")
	b.press("td details.act > summary")
	b.press("td details[open] button")
	b.become(`location.pathname === "/console/signin" && document.readyState === "complete"`)
	if keys, err := api.Passkeys(ctx); err != nil || len(keys) != 0 {
		t.Errorf("%+v, %v", keys, err)
	}
	b.submit("#passkey-signin button", "not known here")
	if _, err := api.ApproveOrder(ctx, other.CallBackID, ""); err != nil {
		t.Errorf("without passkeys: %v", err)
	}
}

// verified fails unless the evidence of an order has a signature that the file alone
// shows, and that no other can stand for.
func (s *shop) verified(ctx context.Context, id string) {
	s.t.Helper()
	proof, err := s.admin.AuditEvidence(ctx, client.AuditOptions{Withdrawal: id})
	if err != nil {
		s.t.Fatal(err)
	}
	i := slices.IndexFunc(proof.Records, func(r client.AuditRecord) bool {
		told, err := journal.Read(r.Record)
		return err == nil && told.Passkey != nil
	})
	if i < 0 {
		s.t.Fatal("no record has the signature")
	}
	told, err := journal.Read(proof.Records[i].Record)
	if err != nil {
		s.t.Fatal(err)
	}
	st, err := told.Passkey.Check()
	if err != nil || st.ID != id || !strings.Contains(string(st.About), "1000.000000000000000001") {
		s.t.Errorf("%+v, %v", st, err)
	}
	changed := *told.Passkey
	changed.Statement = strings.Replace(changed.Statement, "1000.", "9000.", 1)
	if _, err := changed.Check(); err == nil {
		s.t.Error("a statement that was changed has a good signature")
	}
}
