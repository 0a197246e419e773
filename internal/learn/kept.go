package learn

import (
	"path/filepath"
	"strings"
)

// Kept gathers the settings with which the gateway was started and that its new file needs
// too. Secrets are not among them, but the files that hold them are.
type Kept struct {
	Settings []Setting
	leftOut  []string
}

// Add keeps a setting that is not as usual.
func (k *Kept) Add(name, value, usual string) {
	if value != usual {
		k.Settings = append(k.Settings, Setting{Name: name, Value: value})
	}
}

// File keeps the whole path of a file, or of one behind @; nothing where there is none.
func (k *Kept) File(name, value string) {
	path, isSecret := strings.CutPrefix(value, "@")
	if abs, err := filepath.Abs(path); err == nil && value != "" {
		if isSecret {
			abs = "@" + abs
		}
		k.Add(name, abs, "")
	}
}

// Secret keeps the file of a secret, and leaves out a secret itself.
func (k *Kept) Secret(name, value string) {
	if strings.HasPrefix(value, "@") {
		k.File(name, value)
		return
	}
	k.LeaveOut(name)
}

// LeaveOut leaves out a setting that the person has to give again.
func (k *Kept) LeaveOut(name string) { k.leftOut = append(k.leftOut, name) }

// Note tells what was left out; empty if nothing was.
func (k *Kept) Note() string {
	if k.leftOut == nil {
		return ""
	}
	return "not in this file, because secrets belong into files of their own: " + strings.Join(k.leftOut, ", ")
}
