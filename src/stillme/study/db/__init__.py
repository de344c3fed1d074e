"""The study's database: its tables, and functions over one connection."""
