"""What every package has."""
