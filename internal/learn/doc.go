// Package learn says what a provider, the service at the other end, does, and which
// settings of the gateway fit it, from the callbacks that it sends.
package learn
