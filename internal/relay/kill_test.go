package relay

// child runs a relay in place of the tests where the environment asks for it.
func child() bool { return false }
