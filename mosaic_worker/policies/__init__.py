"""What was learned, put to use again: loaded, measured, asked for actions."""
