"""The commands of the command line; related commands share a file."""
