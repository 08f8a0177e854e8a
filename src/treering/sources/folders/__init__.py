"""Files and folders: read, watched, and uploaded."""
