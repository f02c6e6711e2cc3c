"""SQL over profiles: tables as polars frames."""
