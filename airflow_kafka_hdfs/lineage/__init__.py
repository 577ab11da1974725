"""Pairs of datasets derived from workflow graphs, their messages and their warehouse."""
