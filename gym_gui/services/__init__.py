"""Services without Qt: what the command line and the cockpit share."""
