"""Accuracy on real tables against an integration that shares no code with the package; `make audit`, not installed."""
