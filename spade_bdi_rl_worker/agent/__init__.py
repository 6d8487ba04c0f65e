"""The agent: AgentSpeak plans in charge, its mind recorded, its messages over XMPP."""
