package console

// Patterns are those of all pages behind the sign-in, so that a test can say which it has
// not seen.
func (c *Console) Patterns() (list []string) {
	for _, part := range c.end.sections {
		for _, p := range part.all() {
			list = append(list, p.pattern)
		}
	}
	return list
}
