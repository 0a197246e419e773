package merchant

import (
	"log/slog"
	"runtime"
	"strings"
	"time"

	"countersign/envelope"
	"countersign/internal/web"
)

// complete checks c and fills in the defaults.
func (c *Config) complete() error {
	if err := c.completeKeys(); err != nil {
		return err
	}
	if err := c.Profile.complete(); err != nil {
		return err
	}
	if err := c.completeLink(); err != nil {
		return err
	}
	if c.APIKey == "" {
		return configError("APIKey is missing: it goes into every response")
	}
	for i, k := range c.CallbackAPIKeys {
		if k == "" {
			return configError("CallbackAPIKeys[%d] is empty; leave the list empty to check no key", i)
		}
	}
	switch {
	case c.Inbox == nil:
		return configError("Inbox is missing: what was taken must survive the process; " +
			"for a try, NewMemoryInbox forgets it with the process")
	case c.OnDeposit != nil && c.OnPossibleDuplicate == nil:
		return configError("OnPossibleDuplicate is missing: somebody must decide on deposits that may have been " +
			"credited before under another trackingId; KeepForReview leaves them in the Inbox and in the log")
	case c.Timeout < 0 || c.BodyTimeout < 0:
		return configError("a time-out is negative")
	case c.MaxBodies < 0:
		return configError("MaxBodies is negative")
	case c.MaxOpening < 0 || c.MaxWaitingBlocks < 0:
		return configError("MaxOpening or MaxWaitingBlocks is negative")
	case c.MaxBody < 0 || c.MaxBody > envelope.MaxBody:
		return configError("MaxBody is not between 1 and %d", envelope.MaxBody)
	}
	if err := c.oneFunction(); err != nil {
		return err
	}
	setDefault(&c.Timeout, DefaultTimeout)
	setDefault(&c.BodyTimeout, DefaultBodyTimeout)
	if err := c.completeVerify(); err != nil {
		return err
	}
	setDefault(&c.MaxBody, envelope.MaxBody)
	setDefault(&c.MaxBodies, web.DefaultBudget)
	setDefault(&c.MaxOpening, runtime.GOMAXPROCS(0))
	setDefault(&c.MaxWaitingBlocks, 4096)
	setDefault(&c.NotifyPath, DefaultNotifyPath)
	setDefault(&c.WithdrawPath, DefaultWithdrawPath)
	for name, path := range map[string]string{"NotifyPath": c.NotifyPath, "WithdrawPath": c.WithdrawPath} {
		if path[0] != '/' {
			return configError("%s does not start with /", name)
		}
	}
	if c.NotifyPath == c.WithdrawPath {
		return configError("NotifyPath and WithdrawPath are the same; type 2 needs a path of its own")
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// completeKeys checks the keys, so that a wrong one fails at the start and not
// with the first callback.
func (c *Config) completeKeys() error {
	if c.Key.Size() == 0 {
		return configError("Key is missing: read the service's public part with envelope.ParseKey")
	}
	if c.Key.HasPrivate() && len(c.CallbackAPIKeys) == 0 {
		return configError("CallbackAPIKeys is missing: Key has a private part, so whoever has its public part can seal " +
			"requests, and only the header X-API-KEY tells the service from others")
	}
	if c.Padding == envelope.OAEP && !c.Key.HasPrivate() {
		return configError("Padding is OAEP, which only the private part opens, and Key has none")
	}
	if err := c.completeNext(); err != nil {
		return err
	}
	if c.ResponseKey == nil {
		if c.Key.HasPrivate() {
			return configError("ResponseKey is missing: Key has a private part, so it is the merchant's, " +
				"but answers are sealed to a pair of the service")
		}
		c.ResponseKey = c.Key
	}
	for name, k := range map[string]*envelope.Key{"ResponseKey": c.ResponseKey, "NextResponseKey": c.NextResponseKey} {
		if k == nil {
			continue
		}
		if k.HasPrivate() {
			return configError("%s has a private part, which only the service may have", name)
		}
		if _, err := envelope.Seal(k, c.ResponsePadding, []byte("{}")); err != nil {
			return configError("%s: %w", name, err)
		}
	}
	if c.Padding != envelope.PKCS1v15 && c.Padding != envelope.OAEP {
		return configError("Padding: %w", envelope.ErrPadding)
	}
	return nil
}

// completeNext checks the second pair of keys. It comes before ResponseKey gets its
// default.
func (c *Config) completeNext() error {
	switch {
	case c.NextKey == nil && c.NextResponseKey != nil:
		return configError("NextResponseKey needs NextKey: a request under NextKey is what makes it seal")
	case c.NextKey == nil:
		return nil
	case c.NextKey.Size() == 0:
		return configError("NextKey is empty: read it with envelope.ParseKey")
	case c.NextKey.HasPrivate() != c.Key.HasPrivate():
		return configError("Key and NextKey must be of one scheme: both with a private part, or both without")
	case c.NextKey.Fingerprint() == c.Key.Fingerprint():
		return configError("Key and NextKey are the same key")
	}
	if c.NextResponseKey != nil {
		return nil
	}
	c.NextResponseKey = c.ResponseKey
	if same := c.ResponseKey == nil || c.ResponseKey.Fingerprint() == c.Key.Fingerprint(); same && !c.Key.HasPrivate() {
		c.NextResponseKey = c.NextKey
	}
	return nil
}

// complete checks p and fills in the defaults.
func (p *Profile) complete() error {
	switch {
	case p.Binding < BindingRequired || p.Binding > BindingOff:
		return configError("Profile.Binding is not one of the known values")
	case p.Hold < HoldAsk || p.Hold > HoldWait:
		return configError("Profile.Hold is not one of the known values")
	case p.Wait < 0 || p.Wait > maxWait:
		return configError("Profile.Wait is not between 0 and %v", maxWait)
	case p.MaxWaiting < 0:
		return configError("Profile.MaxWaiting is negative")
	case !isName(p.Header):
		return configError("Profile.Header is not the name of a header")
	case !isName(p.BodyField):
		return configError("Profile.BodyField has characters other than letters, digits, - and _")
	}
	setDefault(&p.Header, DefaultHeader)
	setDefault(&p.BodyField, DefaultBodyField)
	setDefault(&p.Wait, 8*time.Second)
	setDefault(&p.MaxWaiting, 64)
	return nil
}

func isName(s string) bool {
	return len(s) <= 64 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
