package store

// dialect holds every difference between the databases.
type dialect struct {
	name string
}
