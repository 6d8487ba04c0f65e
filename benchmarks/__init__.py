"""How fast MOSAIC is, measured against the targets it was built to. ``make bench`` runs everything."""
