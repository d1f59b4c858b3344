"""Whether a draft may replace the conversation: invariants of the messages, and checks of the summary's text."""
