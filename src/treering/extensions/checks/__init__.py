"""Report the effects of a change of a repository on recorded knowledge, before it is merged."""
