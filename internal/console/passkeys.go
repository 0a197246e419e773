package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"countersign/client"
)

// passkeyAPI is the part of both APIs that is about passkeys.
type passkeyAPI interface {
	Passkeys(ctx context.Context) ([]client.Passkey, error)
	PasskeyChallenge(ctx context.Context, origin string) (client.PasskeyChallenge, error)
	AddPasskey(ctx context.Context, p client.NewPasskey) (client.Passkey, error)
	RemovePasskey(ctx context.Context, id string, signed *client.Assertion) error
	SignInChallenge(ctx context.Context, origin string) (client.PasskeyChallenge, error)
	SignIn(ctx context.Context, p client.PasskeySignIn) (client.SignedIn, error)
}

func (v *visit) keys() passkeyAPI {
	if v.service != nil {
		return v.service
	}
	return v.gateway
}

// origin is the origin of this page, as the browser sends it.
func origin(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// signed reads what a form with a signature has; nil where it has none.
func (v *visit) signed() *client.Assertion {
	credential := json.RawMessage(v.form("signed-credential"))
	if !json.Valid(credential) {
		return nil
	}
	return &client.Assertion{Text: v.r.PostFormValue("signed-text"), Credential: credential}
}

// passkeysPage lists the passkeys of a person and makes another.
type passkeysPage struct {
	Passkeys []client.Passkey
	New      *client.PasskeyChallenge // nil: none can be made from this page
	Problem  string                   // why
	Last     bool                     // an admin's only one stays
	Values   map[string]string
}

func (v *visit) passkeys() error {
	ctx := v.r.Context()
	list, err := v.keys().Passkeys(ctx)
	if err != nil {
		return err
	}
	page := passkeysPage{Passkeys: list, Last: len(list) == 1 && v.me.Role == client.RoleAdmin, Values: v.values(nil)}
	begun, err := v.keys().PasskeyChallenge(ctx, origin(v.r))
	switch {
	case errors.Is(err, client.ErrInvalid):
		page.Problem = "Browsers make passkeys only for host names by https, or at localhost. Open this console under such a name."
	case err != nil:
		return err
	default:
		page.New = &begun
	}
	return v.render("passkeys", "Passkeys", page)
}

func (v *visit) passkeyAdd() error {
	credential := json.RawMessage(v.form("credential"))
	if !json.Valid(credential) {
		return refuse("no passkey was made: this needs JavaScript and a browser with passkeys")
	}
	_, err := v.keys().AddPasskey(v.r.Context(), client.NewPasskey{Name: v.form("name"), State: v.form("state"), Credential: credential, Passkey: v.signed()})
	if err != nil {
		return err
	}
	return v.done("/console/passkeys", "passkey-added")
}

func (v *visit) passkeyRemove() error {
	if err := v.keys().RemovePasskey(v.r.Context(), v.r.PathValue("id"), v.signed()); err != nil {
		return err
	}
	return v.done("/console/passkeys", "passkey-removed")
}

// signInPasskey signs in with what the browser's passkey has signed.
func (c *Console) signInPasskey(w http.ResponseWriter, r *http.Request) {
	body, err := read(r, strangerForm, c.Bodies.Strangers)
	defer body.Free()
	form := signInForm{Next: inside(r.PostFormValue("next"))}
	v := &visit{c: c, w: w, r: r}
	credential := json.RawMessage(r.PostFormValue("credential"))
	if err == nil {
		err = v.connect("")
	}
	if err == nil && !json.Valid(credential) {
		err = refuse("no passkey has signed: this needs JavaScript and a browser with passkeys")
	}
	var in client.SignedIn
	if err == nil {
		in, err = v.keys().SignIn(r.Context(), client.PasskeySignIn{State: r.PostFormValue("state"), Credential: credential})
	}
	if err == nil {
		err = c.start(w, r, in.Secret)
	}
	if err != nil {
		form.Problem = sentences(err)[0]
		c.renderSignIn(w, r, statusOf(err), form)
		return
	}
	http.Redirect(w, r, form.Next, http.StatusSeeOther)
}

// passkeyChallenge is what the page for signing in needs; nil where browsers have no
// passkeys for its address.
func (v *visit) passkeyChallenge() *client.PasskeyChallenge {
	if v.connect("") != nil {
		return nil
	}
	begun, err := v.keys().SignInChallenge(v.r.Context(), origin(v.r))
	if err != nil {
		return nil
	}
	return &begun
}
