"""What all adapters and formats share: access, folders, text, lines, bounded processes."""
