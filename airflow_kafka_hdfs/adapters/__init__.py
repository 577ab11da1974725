"""One module per outside system; each implements ports and knows one client library."""
