"""What the commands declare. Nothing here loads anything heavy, so that `--help` is quick."""
