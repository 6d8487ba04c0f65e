"""A worker that only shows how it was started, and leaves in the way it is asked to. It talks to no daemon."""
