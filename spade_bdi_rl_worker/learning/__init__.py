"""What an agent learns with: worlds, tables and the rules that change them. Knows nothing of plans and messages."""
