"""Your own data: a folder with a table of labels, Hugging Face data, or a torch Dataset."""
