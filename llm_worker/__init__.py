"""A language model plays environments: the LLM Multi-Step Worker."""
