"""The Spade BDI Worker: AgentSpeak plans are in charge, tabular reinforcement learning does the work underneath."""
