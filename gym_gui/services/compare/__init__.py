"""Groups of runs, compared: what each reached over its seeds, with intervals, and what was left out."""
