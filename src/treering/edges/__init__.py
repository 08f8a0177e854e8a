"""Everything that touches the outside, each part replaceable."""
