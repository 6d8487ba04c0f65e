"""The CORL worker in the cockpit."""
