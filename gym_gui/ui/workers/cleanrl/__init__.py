"""The CleanRL worker in the cockpit: presenter, form, checks of what was typed, pages about algorithms."""
