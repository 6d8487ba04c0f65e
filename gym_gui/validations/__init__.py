"""Checks of what was put into forms, before anything is submitted. No Qt here."""
