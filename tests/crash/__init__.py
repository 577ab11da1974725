"""The store dies at the n-th call of a scenario; after one recovery nothing is lost or doubled."""
