"""How the LLM Multi-Step Worker is presented."""
