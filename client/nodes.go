package client

// Node is a process of an end.
type Node struct {
	Name    string `json:"name" doc:"its name in leases, attempts and the audit log"`
	Version string `json:"version" doc:"its build: version, commit with its date, Go, and the library that does the RSA"`
	Started Time   `json:"started" doc:"when it started"`
	Seen    Time   `json:"seen" doc:"when it last wrote to the database that it runs, which it does every 10 seconds"`
	Silent  bool   `json:"silent" doc:"it has written nothing for 30 seconds: it was killed, or does not reach the database. A node that stops in order leaves the list at once, a silent one after a day"`
	Self    bool   `json:"self" doc:"it is the node that answers"`
}
