"""Plain text and JSON values: quoting, the texts inside a value, identifiers, text that is not prose."""
