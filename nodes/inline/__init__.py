"""The nodes, run one after another without a graph of their own: inside a hook, or on a plain list of messages."""
