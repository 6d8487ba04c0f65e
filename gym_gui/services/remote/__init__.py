"""The daemon of another machine, through SSH: how it is named, reached, and run commands on. See decision 0017."""
