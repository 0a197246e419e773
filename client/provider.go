package client

// Provider is the identity provider of a company, with which people sign in.
type Provider struct {
	Issuer  string `json:"issuer,omitempty" doc:"URL of the provider; absent: people sign in with tokens alone"`
	Problem string `json:"problem,omitempty" doc:"why nobody can sign in with it now; absent: people can"`
}

// ProviderOrigin names the console that a person signs in to.
type ProviderOrigin struct {
	Origin string `json:"origin" minLength:"1" maxLength:"300" doc:"scheme, host and port of the console, by https, 1 to 300 characters"`
	Again  bool   `json:"again,omitempty" doc:"true: the person must sign in at the provider anew, unless that was within the last five minutes"`
}

// ProviderBegun is a sign-in that has begun.
type ProviderBegun struct {
	URL   string `json:"url" doc:"page of the provider that the browser is sent to"`
	State string `json:"state" doc:"for the browser that began it alone; to be sent back within 10 minutes"`
}

// ProviderReturn is what the provider sent a browser back with.
type ProviderReturn struct {
	State         string `json:"state" minLength:"1" maxLength:"4000" doc:"state of the beginning"`
	ReturnedState string `json:"returnedState" maxLength:"300" doc:"state in the address that the browser was sent back to"`
	Code          string `json:"code" minLength:"1" maxLength:"8000" doc:"code in that address"`
	Issuer        string `json:"issuer,omitempty" maxLength:"1000" doc:"iss in that address; absent: there is none"`
}

// SignedIn is a session.
type SignedIn struct {
	Secret  Secret `json:"secret" doc:"to be sent in place of a token"`
	Expires Time   `json:"expires" doc:"when it ends at the latest"`
}
