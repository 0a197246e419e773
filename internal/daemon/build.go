package daemon

// Version is the release; CHANGELOG.md says what is in it.
const Version = "0.1.0-dev"
