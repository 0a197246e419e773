package db

const (
	readMetaSQL  = `SELECT value FROM meta WHERE name = $1`
	writeMetaSQL = `INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`

	// metaKey is the row of meta with the fingerprint of the master key. With it a wrong key fails at the start, and
	// not at the first secret.
	metaKey = "master_key"
)

const (
	setMetaSQL  = `INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`
	dropMetaSQL = `DELETE FROM meta WHERE name = $1`
)

// metaBackup is the row that Backup writes to a copy. Restoring removes it.
const metaBackup = "backup"
