"""Topics that are folders of Parquet files: ``dir:PATH``."""
