"""Attacks on Treering, run by `make attack`: bounded in count and time, on this machine only, in temporary folders."""
