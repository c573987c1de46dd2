"""The reader's own data: folders, tables, Hugging Face, torch data sets."""
