// Package docs is the guides. Its tests hold them to what the programs are: every
// block says what it is and is that, every command exists with its flags, every
// configuration is valid, every test that a guide names is there.
package docs
