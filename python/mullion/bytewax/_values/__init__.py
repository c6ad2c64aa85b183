"""Python values as bytes, column by column."""
