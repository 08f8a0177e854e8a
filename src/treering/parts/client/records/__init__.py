"""Records: values that programs keep under names of their own."""
