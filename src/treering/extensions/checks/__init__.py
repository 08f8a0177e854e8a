"""What a change of a repository does to what is known of it, told before the change is merged."""
