//go:build pkcs11 && cgo

package envelope

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/pkcs11"
)

const (
	// tokenTimeout bounds an operation, with its wait for a session. A call of a module cannot
	// be ended: one that takes longer keeps its session until it returns.
	tokenTimeout = 10 * time.Second
	// generateTimeout is tokenTimeout for a new pair, which some tokens make slowly.
	generateTimeout = 2 * time.Minute

	// A token that is away is looked for after tokenFirst, and then after twice as long each
	// time, up to tokenMost.
	tokenFirst = time.Second
	tokenMost  = 30 * time.Second
	// youngLink is how old a connection is at least that is made anew for a failure that may
	// be of one key alone: a damaged one must not keep the others waiting.
	youngLink = 10 * time.Second
)

// Of PKCS#11 3.0, which the package does not name.
const (
	ckkECEdwards           = 0x40
	ckmECEdwardsKeyPairGen = 0x1055
	ckmEdDSA               = 0x1057
)

// Parameters of Ed25519: the OID 1.3.101.112, or the name that older drafts have.
var edwards25519 = [][]byte{{0x06, 0x03, 0x2b, 0x65, 0x70}, append([]byte{0x13, 12}, "edwards25519"...)}

// token is a device of PKCS#11.
type token struct {
	uri    tokenURI
	module *pkcs11.Ctx
	places chan struct{} // of operations

	mu      sync.Mutex
	idle    *sync.Cond    // busy went down
	busy    int           // operations that have a session
	link    *tokenLink    // nil: away
	why     error         // why it is away
	next    time.Time     // no connection before
	rest    time.Duration // the last pause before one
	refused *[sha256.Size]byte
	started bool // the module is initialised
	closed  bool
}

// tokenLink is one connection: a login with its sessions. Handles of objects hold in it. The
// session that logged in stays open and does nothing else: the end of the last one would log out.
type tokenLink struct {
	slot     uint
	signs    bool // it has Ed25519
	made     time.Time
	sessions []pkcs11.SessionHandle         // that nobody uses
	handles  map[string]pkcs11.ObjectHandle // by handleName
}

func openDevice(uri tokenURI, sessions int) (device, error) {
	if _, err := uri.pin(); err != nil {
		return nil, err
	}
	module := pkcs11.New(uri.module)
	if module == nil {
		return nil, fmt.Errorf("%w: the module %s cannot be loaded; check module-path and that the program can read it", ErrKeyStore, uri.module)
	}
	t := &token{uri: uri, module: module, places: make(chan struct{}, sessions)}
	t.idle = sync.NewCond(&t.mu)
	if err := t.probe(); errors.Is(err, errNotSuited) {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// errNotSuited is for what no second try changes.
var errNotSuited = fmt.Errorf("%w: the token", ErrKeyStore)

// run runs f with a session. When f says that the connection is of no use, it is made again
// and f runs once more.
func (t *token) run(limit time.Duration, f func(*tokenLink, pkcs11.SessionHandle) error) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	silent := fmt.Errorf("%w: the %v did not answer within %v", ErrKeyStore, t.uri, limit)
	select {
	case t.places <- struct{}{}:
	case <-timer.C:
		return silent
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-t.places }()
		done <- t.twice(f)
	}()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return silent
	}
}

func (t *token) twice(f func(*tokenLink, pkcs11.SessionHandle) error) error {
	for last := false; ; last = true {
		link, session, err := t.take()
		if err != nil {
			return err
		}
		err = f(link, session)
		gone := ofConnection(err)
		keep := !gone && (err == nil || ofOperation(err) || last || time.Since(link.made) < youngLink)
		t.give(link, session, keep, err, gone && last)
		if err == nil {
			return nil
		}
		if keep || last {
			return storeError("the "+t.uri.String(), err)
		}
	}
}

// result is what f gives in a session. It is not read after a time-out, since the call may still
// write it.
func result[T any](t *token, limit time.Duration, f func(*tokenLink, pkcs11.SessionHandle) (T, error)) (T, error) {
	var out, none T
	err := t.run(limit, func(link *tokenLink, session pkcs11.SessionHandle) error {
		got, err := f(link, session)
		if err == nil {
			out = got
		}
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}

// ofConnection reports whether the connection to the token is gone.
func ofConnection(err error) bool {
	var code pkcs11.Error
	return errors.As(err, &code) && slices.Contains([]pkcs11.Error{
		pkcs11.CKR_SESSION_CLOSED, pkcs11.CKR_SESSION_HANDLE_INVALID, pkcs11.CKR_DEVICE_REMOVED, pkcs11.CKR_DEVICE_ERROR, pkcs11.CKR_TOKEN_NOT_PRESENT,
		pkcs11.CKR_TOKEN_NOT_RECOGNIZED, pkcs11.CKR_CRYPTOKI_NOT_INITIALIZED, pkcs11.CKR_USER_NOT_LOGGED_IN, pkcs11.CKR_SLOT_ID_INVALID,
	}, code)
}

// ofOperation reports whether a token refused what was asked of it, and works.
func ofOperation(err error) bool {
	var code pkcs11.Error
	return errors.As(err, &code) && slices.Contains([]pkcs11.Error{
		pkcs11.CKR_DATA_INVALID, pkcs11.CKR_DATA_LEN_RANGE, pkcs11.CKR_ENCRYPTED_DATA_INVALID, pkcs11.CKR_ENCRYPTED_DATA_LEN_RANGE,
		pkcs11.CKR_KEY_SIZE_RANGE, pkcs11.CKR_MECHANISM_INVALID, pkcs11.CKR_MECHANISM_PARAM_INVALID, pkcs11.CKR_KEY_FUNCTION_NOT_PERMITTED,
		pkcs11.CKR_TEMPLATE_INCOMPLETE, pkcs11.CKR_TEMPLATE_INCONSISTENT, pkcs11.CKR_ATTRIBUTE_TYPE_INVALID, pkcs11.CKR_ATTRIBUTE_VALUE_INVALID,
		pkcs11.CKR_FUNCTION_NOT_SUPPORTED, pkcs11.CKR_DEVICE_MEMORY, pkcs11.CKR_TOKEN_WRITE_PROTECTED,
	}, code)
}

// take gives a session of the connection, which it makes where there is none, or where the present one
// opens no session any more.
func (t *token) take() (*tokenLink, pkcs11.SessionHandle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for last := false; ; last = true {
		link, err := t.linked()
		if err != nil {
			return nil, 0, err
		}
		if n := len(link.sessions); n > 0 {
			session := link.sessions[n-1]
			link.sessions = link.sessions[:n-1]
			t.busy++
			return link, session, nil
		}
		session, err := t.module.OpenSession(link.slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
		if err == nil {
			t.busy++
			return link, session, nil
		}
		err = storeError("opening a session of the "+t.uri.String(), err)
		last = last || !ofConnection(err)
		t.drop(link, err, last)
		if last {
			return nil, 0, err
		}
	}
}

// linked gives the connection. The caller holds mu.
func (t *token) linked() (*tokenLink, error) {
	for t.link == nil && t.busy > 0 && !t.closed {
		t.idle.Wait() // the sessions of the connection before are still in use
	}
	if t.closed {
		return nil, fmt.Errorf("%w: it is closed", ErrKeyStore)
	}
	if t.link == nil {
		if time.Now().Before(t.next) {
			return nil, t.why
		}
		if err := t.connect(); err != nil {
			t.later(err)
			return nil, err
		}
	}
	return t.link, nil
}

// give takes a session back. keep is false where the connection is of no use any more; pause
// where a new one was of no use either.
func (t *token) give(link *tokenLink, session pkcs11.SessionHandle, keep bool, why error, pause bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	switch {
	case !keep:
		t.drop(link, why, pause)
	case why == nil:
		t.rest = 0
		link.sessions = append(link.sessions, session)
	default: // it may have an operation under way
		_ = t.module.CloseSession(session)
	}
	t.idle.Broadcast()
}

// drop ends a connection, if it is still the one.
func (t *token) drop(link *tokenLink, why error, pause bool) {
	if t.link != link {
		return
	}
	t.link = nil
	if pause {
		t.later(storeError("the "+t.uri.String(), why))
	}
}

// later says why the token is away, and when it is looked for again.
func (t *token) later(why error) {
	t.rest = min(max(tokenFirst, 2*t.rest), tokenMost)
	t.why, t.next = why, time.Now().Add(t.rest)
}

// connect initialises the module anew, finds the token and logs in. The caller holds mu, and
// no operation runs.
func (t *token) connect() error {
	pin, err := t.uri.pin()
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(pin))
	if t.refused != nil && *t.refused == digest {
		return fmt.Errorf("%w was refused by the %v and is not tried again: put the right one into the file of pin-source", ErrPIN, t.uri)
	}
	t.stop()
	if err := t.module.Initialize(); err != nil && !errors.Is(err, pkcs11.Error(pkcs11.CKR_CRYPTOKI_ALREADY_INITIALIZED)) {
		return storeError("the module "+t.uri.module+" does not start", err)
	}
	t.started = true
	slot, info, err := t.find()
	if err != nil {
		return err
	}
	signs, err := t.suits(slot)
	if err != nil {
		return err
	}
	switch {
	case info.Flags&pkcs11.CKF_USER_PIN_LOCKED != 0:
		return fmt.Errorf("%w of the %v is locked: its security officer unlocks it (C_InitPIN)", ErrPIN, t.uri)
	case info.Flags&pkcs11.CKF_USER_PIN_FINAL_TRY != 0:
		return fmt.Errorf("%w of the %v was wrong so often that one more wrong one locks it: log in once by hand with the right one, as with pkcs11-tool --login", ErrPIN, t.uri)
	}
	session, err := t.module.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
	if err != nil {
		return storeError("opening a session of the "+t.uri.String(), err)
	}
	err = t.module.Login(session, pkcs11.CKU_USER, pin)
	var code pkcs11.Error
	if errors.As(err, &code) {
		switch code {
		case pkcs11.CKR_USER_ALREADY_LOGGED_IN:
			err = nil
		case pkcs11.CKR_PIN_INCORRECT, pkcs11.CKR_PIN_INVALID, pkcs11.CKR_PIN_LEN_RANGE, pkcs11.CKR_PIN_EXPIRED, pkcs11.CKR_PIN_LOCKED, pkcs11.CKR_USER_PIN_NOT_INITIALIZED:
			t.refused = &digest
			return fmt.Errorf("%w was refused by the %v (%w) and is not tried again: put the right one into the file of pin-source", ErrPIN, t.uri, code)
		}
	}
	if err != nil {
		return storeError("logging in to the "+t.uri.String(), err)
	}
	t.refused = nil
	t.link = &tokenLink{slot: slot, signs: signs, made: time.Now(), handles: map[string]pkcs11.ObjectHandle{}}
	return nil
}

// stop ends the sessions and the module. Modules that were stopped look for their tokens anew.
func (t *token) stop() {
	if t.started {
		_ = t.module.Finalize() // what it says does not help anybody
		t.started = false
	}
}

func (t *token) find() (slot uint, info pkcs11.TokenInfo, err error) {
	slots, err := t.module.GetSlotList(true)
	if err != nil {
		return 0, info, storeError("listing the tokens of "+t.uri.module, err)
	}
	found := 0
	for _, s := range slots {
		i, err := t.module.GetTokenInfo(s)
		if err == nil && i.Flags&pkcs11.CKF_TOKEN_INITIALIZED != 0 && t.uri.is(i.Label, i.SerialNumber, i.Model, i.ManufacturerID) {
			slot, info, found = s, i, found+1
		}
	}
	switch found {
	case 0:
		return 0, info, fmt.Errorf("%w: there is no %v", ErrKeyStore, t.uri)
	case 1:
		return slot, info, nil
	}
	return 0, info, fmt.Errorf("%w: %d tokens are the %v; give serial too", errNotSuited, found, t.uri)
}

// suits checks that the token has the mechanisms that its use needs, and says whether it has
// those of Ed25519.
func (t *token) suits(slot uint) (signs bool, err error) {
	list, err := t.module.GetMechanismList(slot)
	if err != nil {
		return false, storeError("listing the mechanisms of the "+t.uri.String(), err)
	}
	has := func(mechanism uint) bool {
		return slices.ContainsFunc(list, func(m *pkcs11.Mechanism) bool { return m.Mechanism == mechanism })
	}
	for name, needs := range map[string]uint{"CKM_RSA_PKCS_KEY_PAIR_GEN": pkcs11.CKM_RSA_PKCS_KEY_PAIR_GEN, "CKM_RSA_X_509": pkcs11.CKM_RSA_X_509} {
		if !has(needs) {
			return false, fmt.Errorf("%w does not have the mechanism %s, which is needed; a FIPS mode may forbid it", errNotSuited, name)
		}
	}
	return has(ckmECEdwardsKeyPairGen) && has(ckmEdDSA), nil
}

// probe asks for the token's state in a session.
func (t *token) probe() error {
	return t.run(tokenTimeout, func(link *tokenLink, session pkcs11.SessionHandle) error {
		if _, err := t.module.GetSessionInfo(session); err != nil {
			return err
		}
		_, err := t.module.GetTokenInfo(link.slot)
		return err
	})
}

// close waits no longer than an operation may take: a module that hangs ends with the process.
func (t *token) close() error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.closed, t.link = true, nil
		if t.busy == 0 { // else the process ends with it
			t.stop()
		}
		t.idle.Broadcast()
	}()
	select {
	case <-done:
		return nil
	case <-time.After(tokenTimeout):
		return fmt.Errorf("%w: the %v does not end its sessions", ErrKeyStore, t.uri)
	}
}

// privateTemplate is of a private part that is made inside, never leaves and does one thing.
func privateTemplate(id []byte, label string, does uint) []*pkcs11.Attribute {
	list := []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_TOKEN, true),
		pkcs11.NewAttribute(pkcs11.CKA_PRIVATE, true),
		pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, true),
		pkcs11.NewAttribute(pkcs11.CKA_EXTRACTABLE, false),
		pkcs11.NewAttribute(pkcs11.CKA_ID, id),
		pkcs11.NewAttribute(pkcs11.CKA_LABEL, label),
	}
	for _, use := range []uint{pkcs11.CKA_DECRYPT, pkcs11.CKA_SIGN, pkcs11.CKA_UNWRAP} {
		list = append(list, pkcs11.NewAttribute(use, use == does))
	}
	return list
}

func (t *token) generate(id []byte, label string, bits int) (n, e *big.Int, err error) {
	public, err := result(t, generateTimeout, func(_ *tokenLink, session pkcs11.SessionHandle) (numbers [2]*big.Int, err error) {
		public := []*pkcs11.Attribute{
			// Of this session: the program keeps the public part itself.
			pkcs11.NewAttribute(pkcs11.CKA_TOKEN, false),
			pkcs11.NewAttribute(pkcs11.CKA_ENCRYPT, true),
			pkcs11.NewAttribute(pkcs11.CKA_MODULUS_BITS, bits),
			pkcs11.NewAttribute(pkcs11.CKA_PUBLIC_EXPONENT, []byte{1, 0, 1}),
			pkcs11.NewAttribute(pkcs11.CKA_ID, id),
			pkcs11.NewAttribute(pkcs11.CKA_LABEL, label),
		}
		private := privateTemplate(id, label, pkcs11.CKA_DECRYPT) // the raw operation, which seals too
		pub, pri, err := t.module.GenerateKeyPair(session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_RSA_PKCS_KEY_PAIR_GEN, nil)}, public, private)
		if err != nil {
			return numbers, err
		}
		got, err := t.module.GetAttributeValue(session, pub, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_MODULUS, nil), pkcs11.NewAttribute(pkcs11.CKA_PUBLIC_EXPONENT, nil)})
		if err != nil {
			return numbers, errors.Join(err, t.module.DestroyObject(session, pri))
		}
		_ = t.module.DestroyObject(session, pub) // it ends with the session anyway
		return [2]*big.Int{new(big.Int).SetBytes(got[0].Value), new(big.Int).SetBytes(got[1].Value)}, nil
	})
	return public[0], public[1], err
}

// object finds the private part of a pair, and checks that it is that pair's: a wrong one
// would open nothing, as if the peer were at fault.
func (t *token) object(link *tokenLink, session pkcs11.SessionHandle, id, modulus []byte) (pkcs11.ObjectHandle, error) {
	return t.handle(link, id, modulus, func() (pkcs11.ObjectHandle, error) {
		found, err := t.privateParts(session, pkcs11.CKK_RSA, id)
		if err != nil {
			return 0, err
		}
		for _, handle := range found {
			got, err := t.module.GetAttributeValue(session, handle, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_MODULUS, nil)})
			if err != nil {
				return 0, err
			}
			if bytes.Equal(bytes.TrimLeft(got[0].Value, "\x00"), bytes.TrimLeft(modulus, "\x00")) {
				return handle, nil
			}
		}
		return 0, fmt.Errorf("%w with the id %x", ErrKeyNotInStore, id)
	})
}

// handle gives the handle of a private part, which the connection remembers when find has found it.
func (t *token) handle(link *tokenLink, id, public []byte, find func() (pkcs11.ObjectHandle, error)) (pkcs11.ObjectHandle, error) {
	name := handleName(id, public)
	t.mu.Lock()
	handle, known := link.handles[name]
	t.mu.Unlock()
	if known {
		return handle, nil
	}
	handle, err := find()
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	link.handles[name] = handle
	t.mu.Unlock()
	return handle, nil
}

// privateParts finds those of a kind under an identifier.
func (t *token) privateParts(session pkcs11.SessionHandle, kind uint, id []byte) ([]pkcs11.ObjectHandle, error) {
	err := t.module.FindObjectsInit(session, []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_PRIVATE_KEY),
		pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, kind),
		pkcs11.NewAttribute(pkcs11.CKA_ID, id),
	})
	if err != nil {
		return nil, err
	}
	found, _, err := t.module.FindObjects(session, 2)
	if end := t.module.FindObjectsFinal(session); err == nil {
		err = end
	}
	return found, err
}

// handleName names a pair in tokenLink.handles.
func handleName(id, public []byte) string { return string(id) + "\x00" + string(public) }

func (t *token) forget(link *tokenLink, id, modulus []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(link.handles, handleName(id, modulus))
}

func (t *token) raise(id, modulus, block []byte) ([]byte, error) {
	return result(t, tokenTimeout, func(link *tokenLink, session pkcs11.SessionHandle) ([]byte, error) {
		handle, err := t.object(link, session, id, modulus)
		if err != nil {
			return nil, err
		}
		if err := t.module.DecryptInit(session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_RSA_X_509, nil)}, handle); err != nil {
			t.forget(link, id, modulus) // it may have been replaced
			return nil, err
		}
		raised, err := t.module.Decrypt(session, block)
		if err != nil {
			return nil, err
		}
		if len(raised) > len(block) {
			return nil, fmt.Errorf("%w: it gave %d bytes for a block of %d", ErrKeyStore, len(raised), len(block))
		}
		out := make([]byte, len(block)) // some tokens leave zeros out
		copy(out[len(block)-len(raised):], raised)
		return out, nil
	})
}

func (t *token) destroy(id, modulus []byte) error {
	return t.remove(id, modulus, func(link *tokenLink, session pkcs11.SessionHandle) (pkcs11.ObjectHandle, error) {
		return t.object(link, session, id, modulus)
	})
}

// remove destroys the private part that find finds. One that is not there is no error.
func (t *token) remove(id, public []byte, find func(*tokenLink, pkcs11.SessionHandle) (pkcs11.ObjectHandle, error)) error {
	err := t.run(tokenTimeout, func(link *tokenLink, session pkcs11.SessionHandle) error {
		handle, err := find(link, session)
		if err != nil {
			return err
		}
		t.forget(link, id, public)
		return t.module.DestroyObject(session, handle)
	})
	if errors.Is(err, ErrKeyNotInStore) {
		return nil
	}
	return err
}

// maxPIN is the longest PIN taken, in bytes.
const maxPIN = 255

// pin reads the PIN: the file without the end of its line.
func (u tokenURI) pin() (string, error) {
	text, err := u.read(u.pinSource)
	if err != nil {
		return "", fmt.Errorf("%w cannot be read: %w", ErrPIN, err)
	}
	pin := strings.TrimRight(string(text), "\r\n")
	if pin == "" || len(pin) > maxPIN || strings.ContainsAny(pin, "\r\n\x00") {
		return "", fmt.Errorf("%w of %s is not one line of 1 to %d bytes", ErrPIN, u.pinSource, maxPIN)
	}
	return pin, nil
}
