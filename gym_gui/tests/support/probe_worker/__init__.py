"""A worker that only shows how it was started, and leaves in the way it is told. It talks to no daemon."""
