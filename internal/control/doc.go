// Package control keeps the changes that wait for a second person, applies them, and makes and revokes tokens, for both APIs.
package control
