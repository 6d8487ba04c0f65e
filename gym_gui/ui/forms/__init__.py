"""Forms that ask for the settings of a run, built from what scripts and workers declare."""
