"""Services that command line and cockpit share."""
