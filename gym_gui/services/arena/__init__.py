"""People, plans, networks and chance on the same seeds of one environment: played, verified, compared. No Qt here."""
