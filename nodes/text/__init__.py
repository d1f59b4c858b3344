"""Functions on plain text and JSON-like values: quoting, nested texts, identifiers, detection of non-prose."""
