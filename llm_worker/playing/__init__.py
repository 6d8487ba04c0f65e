"""One run: episodes, plans, memory and a person who may take over."""
