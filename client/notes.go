package client

// NewNote is a note to be added. Notes are never changed.
type NewNote struct {
	Text string `json:"text" minLength:"1" maxLength:"2000" doc:"what is noted, 1 to 2,000 characters; it is kept in the audit log too, for ever"`
}
