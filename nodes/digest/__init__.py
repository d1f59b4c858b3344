"""The digest: what is extracted from a conversation without a model."""
