package cli

// Version is what `make build` calls this build: git's description of it.
var Version = "dev"
