"""The interfaces of the verbs for people and programs. The parts register their additions."""
