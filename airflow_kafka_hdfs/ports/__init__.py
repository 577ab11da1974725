"""The seams: every effect of the core goes through one of these protocols.

One module per outside system. Adapters implement them, tests bring fakes that pass the same contract suites,
and the simulator runs the real core over simulated ones.
"""
