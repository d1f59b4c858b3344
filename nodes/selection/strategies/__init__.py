"""The selective strategies: pure functions from a conversation to what would leave it."""
