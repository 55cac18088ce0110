"""What was made and how it was checked: for programs (JSON), people (HTML) and the terminal."""
