"""The web page of a space: server-rendered HTML that works without JavaScript."""
