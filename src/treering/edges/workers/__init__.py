"""Workers that supervisors direct."""
