"""Wiki pages as files: their text, their addresses, and what a person changed in them. Nothing here touches a disk."""
