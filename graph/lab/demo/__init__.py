"""The demonstration: a scripted agent, its tools and its figures."""
