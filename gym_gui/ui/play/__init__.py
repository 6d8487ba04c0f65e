"""A live session in the cockpit: what a person sets, presses and sees."""
