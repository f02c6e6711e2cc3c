"""A profile as tables: polars frames over its columns, one documented schema, and SQL over them."""
