"""Which rows the lane area has, and where a slice stands in them."""
