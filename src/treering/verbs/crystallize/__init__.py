"""`crystallize`: turn work into reusable state, through the gate that every patch passes."""
