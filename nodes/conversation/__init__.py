"""Read a message list: rounds and tool blocks, token counts and sizes, and the request sent to the provider."""
