"""The view of a message list: rounds and tool blocks, tokens and sizes, and the request that is sent."""
