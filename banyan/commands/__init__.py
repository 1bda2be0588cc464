"""One module per verb of the command line: `prepare(argv)` reads its arguments and returns what to run."""
