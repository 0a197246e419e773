package daemon

import (
	"time"

	"countersign/internal/retain"
)

// purgers are what a daemon purges: what is settled, and bodies of its audit log. Nil:
// nothing of it.
type purgers [2]*retain.Purger

// newPurgers makes those whose time is not zero.
func newPurgers(c retain.Config, settled time.Duration, ofSettled func(retain.Config) (*retain.Purger, error), bodies time.Duration, ofBodies func(retain.Config) (*retain.Purger, error)) (p purgers, err error) {
	if c.Keep = settled; settled > 0 {
		if p[0], err = ofSettled(c); err != nil {
			return p, err
		}
	}
	if c.Keep = bodies; bodies > 0 {
		p[1], err = ofBodies(c)
	}
	return p, err
}

func (p purgers) settled() Part { return Part{"retention", p[0].Run} }

func (p purgers) bodies() Part { return Part{"retention of the audit log", p[1].Run} }

// tooShort: an audit log without the bodies of what is still kept proves nothing of it.
func tooShort(settled, bodies time.Duration) bool { return bodies > 0 && bodies < settled }
