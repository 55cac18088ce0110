"""What happens to a model between the file and the folder."""
